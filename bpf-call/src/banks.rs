//! Array maps whose values follow each other without a gap in this process's memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// The values of an mmapable array map, one after the other, without the last bytes of each: its guard.
#[derive(Debug)]
pub struct Banks {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory exists as long as the value, which only hands out its address.
unsafe impl Send for Banks {}
// SAFETY: as above.
unsafe impl Sync for Banks {}

impl Banks {
    /// Maps the first `bank` bytes of each of the first `banks` values of the map. A value has `bank + guard` bytes; both
    /// are multiples of the page size.
    ///
    /// # Errors
    /// The kernel's error; `InvalidInput` if there are no bytes.
    pub fn map(map: BorrowedFd<'_>, banks: usize, bank: usize, guard: usize) -> io::Result<Self> {
        let bytes = banks.checked_mul(bank).filter(|bytes| *bytes > 0).ok_or(io::ErrorKind::InvalidInput)?;
        let place = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: this makes a new mapping, and the kernel chooses its address.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, place.0, place.1, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        // From here on, dropping it takes the whole place away.
        let mapped = Self { address, bytes };
        for number in 0..banks {
            let offset = libc::off_t::try_from(number * (bank + guard)).map_err(io::Error::other)?;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            // SAFETY: it replaces a part of the mapping that was just made, which nothing uses yet.
            let there = unsafe {
                let to = address.add(number * bank).as_ptr().cast();
                libc::mmap(to, bank, access, flags, map.as_raw_fd(), offset)
            };
            if there == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(mapped)
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Returns the number of bytes of all banks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Banks {
    fn drop(&mut self) {
        // SAFETY: `map` made the mapping. Whoever uses the address keeps this value.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}
