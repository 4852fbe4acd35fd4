//! The words and entries under loom, which tries every order of the threads' accesses and every value that a load may
//! return. Only the tests of `tests/threads.rs` use them, by the feature `loom`.
//!
//! A word of loom is larger than a word of memory, and must be made by a constructor. The shared pages have a fixed layout
//! and begin as zero bytes. So the types here keep the layout, and loom's word for an address is made at the first access
//! and found by its address. It begins with what the memory contains. Memory that a model shares must not be freed
//! before the model's run ends, because its addresses would be used again.
//!
//! The read-modify-writes and the stores with the ordering `SeqCst` are full barriers here, as on x86-64 and in BPF
//! programs. loom itself knows `SeqCst` only for fences, and takes it as `AcqRel` elsewhere.

extern crate std;

use core::cell::{RefCell, UnsafeCell};
use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::collections::BTreeMap;
use std::rc::Rc;

pub use loom::sync::atomic::fence;

/// What loom keeps for the memory of one run of a model.
#[derive(Default)]
struct Memory {
    words: RefCell<BTreeMap<usize, Word>>,
    entries: RefCell<BTreeMap<usize, Rc<loom::cell::UnsafeCell<()>>>>,
}

// SAFETY: loom runs the threads of a model in turn on one thread of the system, and no borrow lasts beyond a function
// that makes no access of the model.
unsafe impl Sync for Memory {}

#[derive(Clone)]
struct Word {
    /// Size in bytes, 4 or 8.
    size: usize,
    value: Rc<loom::sync::atomic::AtomicU64>,
}

loom::lazy_static! {
    static ref MEMORY: Memory = Memory::default();
}

fn raw(address: usize, size: usize) -> u64 {
    // SAFETY: the address and size of a valid, aligned word. All threads of a model run on one thread of the system.
    unsafe {
        if size == 4 {
            (address as *const u32).read_volatile().into()
        } else {
            (address as *const u64).read_volatile()
        }
    }
}

fn word(address: usize, size: usize) -> Rc<loom::sync::atomic::AtomicU64> {
    let made = || Word { size, value: Rc::new(loom::sync::atomic::AtomicU64::new(raw(address, size))) };
    Rc::clone(&MEMORY.words.borrow_mut().entry(address).or_insert_with(made).value)
}

fn entry<T>(at: *const T) -> Rc<loom::cell::UnsafeCell<()>> {
    let made = || Rc::new(loom::cell::UnsafeCell::new(()));
    Rc::clone(MEMORY.entries.borrow_mut().entry(at as usize).or_insert_with(made))
}

/// Tells loom that an entry is read. loom fails if a write is not ordered before or after it.
pub(super) fn reads<T>(at: *const T) {
    entry(at).with(|_| ());
}

/// Tells loom that an entry was written, and the words within it too: they have no order with other accesses.
pub(super) fn writes<T>(at: *const T) {
    entry(at).with_mut(|_| ());
    let range = at as usize..at as usize + size_of::<T>();
    let inside: std::vec::Vec<(usize, Word)> =
        MEMORY.words.borrow().range(range).map(|(address, word)| (*address, word.clone())).collect();
    for (address, word) in inside {
        word.value.store(raw(address, word.size), Relaxed);
    }
}

fn barrier(ordering: Ordering) {
    if ordering == SeqCst {
        fence(SeqCst);
    }
}

macro_rules! word {
    ($name:ident, $value:ty) => {
        /// A word that other threads of the model write.
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name(UnsafeCell<$value>);

        // SAFETY: loom makes all accesses in turn.
        unsafe impl Sync for $name {}

        // SAFETY: an integer.
        unsafe impl bytemuck::Zeroable for $name {}

        impl $name {
            /// Returns the word at `p`.
            ///
            /// # Safety
            /// `p` is valid for `'a`, and aligned.
            pub const unsafe fn from_ptr<'a>(p: *mut $value) -> &'a Self {
                // SAFETY: by the contract of this function; the types have one layout.
                unsafe { &*p.cast() }
            }

            /// Returns the address of the word.
            pub const fn as_ptr(&self) -> *mut $value {
                self.0.get()
            }

            fn word(&self) -> Rc<loom::sync::atomic::AtomicU64> {
                word(self.0.get() as usize, size_of::<$value>())
            }

            /// Reads the word.
            pub fn load(&self, ordering: Ordering) -> $value {
                self.word().load(if ordering == SeqCst { Acquire } else { ordering }) as $value
            }

            /// Writes the word.
            pub fn store(&self, value: $value, ordering: Ordering) {
                self.word().store(value.into(), if ordering == SeqCst { Release } else { ordering });
                barrier(ordering);
            }

            /// Writes `new` if the word is `expected`. Returns the previous value, as `Ok` if it was `expected`.
            ///
            /// # Errors
            /// The previous value, if it was another one.
            pub fn compare_exchange(
                &self,
                expected: $value,
                new: $value,
                success: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                barrier(success);
                let old = self.word().compare_exchange(expected.into(), new.into(), AcqRel, Acquire);
                barrier(success);
                old.map(|old| old as $value).map_err(|old| old as $value)
            }

            /// Writes the word, and returns the previous value.
            pub fn swap(&self, value: $value, ordering: Ordering) -> $value {
                barrier(ordering);
                let old = self.word().swap(value.into(), AcqRel);
                barrier(ordering);
                old as $value
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);

macro_rules! read_modify_write {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub fn $name(&self, operand: u64, ordering: Ordering) -> u64 {
            barrier(ordering);
            let old = self.word().$name(operand, AcqRel);
            barrier(ordering);
            old
        }
    };
}

impl AtomicU64 {
    read_modify_write!(
        /// Sets bits, and returns the previous value.
        fetch_or
    );
    read_modify_write!(
        /// Keeps only the given bits, and returns the previous value.
        fetch_and
    );
    read_modify_write!(
        /// Adds, and returns the previous value.
        fetch_add
    );
}
