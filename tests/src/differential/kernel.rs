//! The XDP programs in the kernel, executed by test runs, and their maps.

use core::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result};
use aya::maps::{Array, DevMap, Map, MapData, PerCpuArray, ProgramArray, RingBuf, Stack};
use aya::programs::{TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use bpf_call::Banks;
use tiercel_node::programs::{ENGINE, EXCHANGE, PLAIN, RECORDING, REDELIVER, WIRE};
use trace_replay::RecordedRun;
use transport_common::connection::{Endpoint, Snapshot};
use transport_common::counters::Counter;
use transport_common::datapath::Exchange;
use transport_common::datapath::exchange::Direction;
use transport_common::ids::CellId;
use transport_common::queues::{CELL_BYTES, CELLS, CONNECTIONS, NodeConfig, QueuePair, REGIONS, Region};
use transport_common::shard::NodePage;
use transport_common::tape::Tag;
use transport_common::timing_wheel::TimingWheel;
use transport_common::units::Picoseconds;

use super::mapping::{self, Mapping};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tiercel-ebpf"));

/// The largest number of bytes of a frame after the run.
const LONGEST_FRAME: usize = 4096;

/// The program to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The program that the interface runs for each received frame.
    Wire,
    /// The transmit pipeline.
    Engine,
    /// Delivers a held request. Only for cases in which it finds none: [`Engine`](Self::Engine) calls it otherwise.
    Redeliver,
    /// Carries out a request of the node.
    Exchange,
}

/// Value of a connection's lock when nobody holds it.
const FREE: u64 = 0;
/// Value of a connection's lock when somebody holds it.
const HELD: u64 = 1;

/// A value of the connection map: the lock, then the entry. In words, because not all bytes are an entry.
type ConnectionWords = [u64; 1 + size_of::<Snapshot>() / 8];

/// The timing wheel, in words of its alignment.
type WheelWords = [u64; size_of::<TimingWheel<CONNECTIONS>>() / 8];

/// Returns the words of a timing wheel.
fn words_of(wheel: &mut TimingWheel<CONNECTIONS>) -> &mut WheelWords {
    const {
        assert!(size_of::<WheelWords>() == size_of::<TimingWheel<CONNECTIONS>>());
        assert!(align_of::<WheelWords>() == align_of::<TimingWheel<CONNECTIONS>>());
    }
    // SAFETY: size and alignment are equal, and the reference is exclusive. The wheel is `repr(C)` and has only
    // integers, so any words are valid. What would be padding is a field, so no byte is uninitialised.
    unsafe { &mut *core::ptr::from_mut(wheel).cast() }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// `enum xdp_action`.
    pub action: u32,
    /// The frame after the run.
    pub frame: Vec<u8>,
    /// The monotonic clock before and after, nanoseconds.
    pub clock: (u64, u64),
}

/// The loaded programs and their maps.
pub struct Kernel {
    connections: Array<MapData, ConnectionWords>,
    counters: PerCpuArray<MapData, u64>,
    cells: Array<MapData, [u8; CELL_BYTES]>,
    free_cells: Stack<MapData, u32>,
    round_robin: Array<MapData, u32>,
    queue_pairs: Mapping<QueuePair>,
    memory: Banks,
    regions: Mapping<Region>,
    node: Mapping<NodePage>,
    exchange: Mapping<Exchange>,
    wheel: Array<MapData, WheelWords>,
    /// `struct xdp_md` of frames that the wire program receives.
    context: [u8; 24],
    programs: ProgramArray<MapData>,
    trace: RingBuf<MapData>,
    /// Whether the recording programs are loaded, and whether they run in place of the plain ones.
    recording: (bool, bool),
    _port: DevMap<MapData>,
    object: Ebpf,
}

/// The map `name` as a type of aya's.
fn take<T: TryFrom<Map, Error: std::error::Error + Send + Sync + 'static>>(
    object: &mut Ebpf,
    name: &str,
) -> Result<T> {
    let map = object.take_map(name).with_context(|| format!("no map {name}"))?;
    T::try_from(map).with_context(|| format!("map {name}"))
}

fn program<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp> {
    Ok(object.program_mut(name).with_context(|| format!("no program {name}"))?.try_into()?)
}

fn nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid, and this clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Kernel {
    /// Loads the programs for a node with `config` without attaching them. Frames appear to come from the
    /// interface with index `interface` of this thread's network namespace, which must not be the loopback
    /// interface.
    ///
    /// # Errors
    /// Without root, or if the kernel refuses a program.
    pub fn load(config: NodeConfig, interface: u32) -> Result<Self> {
        let config = bytemuck::bytes_of(&config);
        let mut loader = EbpfLoader::new();
        let mut object = loader.override_global("NODE_CONFIG", config, true).load(OBJECT)?;
        let mut programs: ProgramArray<MapData> = take(&mut object, "PROGRAMS")?;
        for (place, name) in [ENGINE, REDELIVER].into_iter().enumerate() {
            let target = program(&mut object, name)?;
            target.load().with_context(|| format!("load {name}"))?;
            programs.set(place as u32, target.fd()?, 0)?;
        }
        for name in [WIRE, EXCHANGE] {
            program(&mut object, name)?.load().with_context(|| format!("load {name}"))?;
        }
        let mut port: DevMap<MapData> = take(&mut object, "PORT")?;
        port.set(0, interface, None, 0)?;
        let mut context = [0; 24];
        context[12..16].copy_from_slice(&interface.to_ne_bytes());
        let mut kernel = Self {
            connections: take(&mut object, "CONNECTIONS")?,
            counters: take(&mut object, "COUNTERS")?,
            cells: take(&mut object, "CELLS")?,
            free_cells: take(&mut object, "CELL_STACK")?,
            round_robin: take(&mut object, "ROUND_ROBIN")?,
            queue_pairs: Mapping::new(&mut object, "QUEUE_PAIRS", CONNECTIONS)?,
            memory: mapping::banks(&mut object, "MEMORY")?,
            regions: Mapping::new(&mut object, "REGIONS", REGIONS)?,
            node: Mapping::new(&mut object, "NODE", 1)?,
            exchange: Mapping::new(&mut object, "EXCHANGE", 1)?,
            wheel: take(&mut object, "WHEEL")?,
            context,
            programs,
            trace: take(&mut object, "TRACE")?,
            recording: (false, false),
            _port: port,
            object,
        };
        kernel.set_free_cells(&(0..CELLS as u32).map(CellId::at).collect::<Vec<_>>())?;
        Ok(kernel)
    }

    /// Returns the monotonic clock, which the programs use too, in nanoseconds.
    #[must_use]
    pub fn now() -> u64 {
        nanos()
    }

    /// Returns the id of the wire program.
    ///
    /// # Errors
    /// If the kernel does not return it.
    pub fn wire_id(&mut self) -> Result<u32> {
        Ok(program(&mut self.object, WIRE)?.info()?.id())
    }

    /// Runs a program on a frame.
    ///
    /// # Errors
    /// If the kernel refuses to run it.
    pub fn run(&mut self, which: Program, frame: &[u8]) -> Result<Outcome> {
        let [wire, engine, redeliver] = if self.recording.1 { RECORDING } else { PLAIN };
        let name = match which {
            Program::Wire => wire,
            Program::Engine => engine,
            Program::Redeliver => redeliver,
            Program::Exchange => EXCHANGE,
        };
        let mut out = vec![0; LONGEST_FRAME];
        let context = self.context;
        let mut context_out = context;
        let size = frame.len() as u32;
        let mut context_in = context;
        context_in[4..8].copy_from_slice(&size.to_ne_bytes());
        let program = program(&mut self.object, name)?;
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut out);
        if which == Program::Wire {
            options.ctx_in = Some(&context_in);
            options.ctx_out = Some(&mut context_out);
        }
        let before = nanos();
        let result = program.test_run(options)?;
        let after = nanos();
        out.truncate(result.data_size_out as usize);
        Ok(Outcome { action: result.return_value, frame: out, clock: (before, after) })
    }

    /// Runs the programs that record in place of the plain ones from now on, or the plain ones again.
    ///
    /// # Errors
    /// If the kernel refuses a program.
    pub fn record(&mut self, records: bool) -> Result<()> {
        let Self { object, programs, recording, .. } = self;
        if records && !recording.0 {
            for name in RECORDING {
                program(object, name)?.load().with_context(|| format!("load {name}"))?;
            }
            recording.0 = true;
        }
        let names = if records { RECORDING } else { PLAIN };
        for (place, name) in names[1..].iter().enumerate() {
            programs.set(place as u32, program(object, name)?.fd()?, 0)?;
        }
        recording.1 = records;
        Ok(())
    }

    /// Returns what is on the tapes of the runs since the last call: all clock readings, in order, and the number of steps of
    /// the connection in `slot`. Only recorded runs count steps in the connection. A frame may be for another connection.
    ///
    /// # Errors
    /// If a tape cannot be read.
    pub fn taped(&mut self, slot: usize) -> Result<(Vec<Picoseconds>, u64)> {
        let (mut readings, mut steps) = (Vec::new(), 0);
        while let Some(tape) = self.trace.next() {
            let run = RecordedRun::from_bytes(&tape)?;
            if run.slot == Some(slot as u32) {
                steps += run.steps.len() as u64;
            }
            for note in run.notes() {
                let note = note?;
                if note.tag == Tag::Now {
                    readings.push(Picoseconds(note.wide(0)));
                }
            }
        }
        Ok((readings, steps))
    }

    /// Returns the context and tables of `slot`.
    ///
    /// # Errors
    /// If the map cannot be read, or holds no valid entry.
    pub fn entry(&self, slot: usize) -> Result<Box<Snapshot>> {
        let words = self.connections.get(&(slot as u32), 0)?;
        let entry: Result<&Snapshot, _> =
            bytemuck::checked::try_from_bytes(bytemuck::cast_slice(&words[1..]));
        let entry = entry.map_err(|error| anyhow::anyhow!("slot {slot} holds no valid entry: {error:?}"))?;
        Ok(Box::new(*entry))
    }

    fn set_connection(&mut self, slot: usize, lock: u64, entry: &Snapshot) -> Result<()> {
        let mut words: ConnectionWords = [lock; 1 + size_of::<Snapshot>() / 8];
        bytemuck::cast_slice_mut(&mut words[1..]).copy_from_slice(bytemuck::bytes_of(entry));
        Ok(self.connections.set(slot as u32, words, 0)?)
    }

    /// Replaces the context and tables of `slot`.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn set_entry(&mut self, slot: usize, entry: &Snapshot) -> Result<()> {
        self.set_connection(slot, FREE, entry)
    }

    /// Takes the lock of `slot` and never releases it.
    ///
    /// # Errors
    /// If the map cannot be read or written.
    pub fn hold_lock(&mut self, slot: usize) -> Result<()> {
        let entry = self.entry(slot)?;
        self.set_connection(slot, HELD, &entry)
    }

    /// Asks for another next hop of a connection in `slot`. Returns the number of the answer
    /// ([`Answer`](transport_common::datapath::exchange::Answer)).
    ///
    /// # Errors
    /// If the kernel refuses to run the program.
    pub fn set_next_hop(&mut self, slot: usize, request: &Endpoint, generation: u32) -> Result<u32> {
        let mut entry: Box<Snapshot> = bytemuck::zeroed_box();
        (entry.connection.flow.endpoint, entry.connection.generation) = (*request, generation);
        let page = &self.exchange.all()[0];
        page.slot.store(slot as u32, Relaxed);
        page.direction.store(Direction::NextHop as u32, Relaxed);
        page.connection.store(*entry);
        Ok(self.run(Program::Exchange, &[0; 64])?.action)
    }

    /// Returns the queues of `slot`.
    pub fn queue_pair(&mut self, slot: usize) -> &mut QueuePair {
        &mut self.queue_pairs.all()[slot]
    }

    /// Returns the registered memory.
    pub fn memory(&mut self) -> &mut [u8] {
        // SAFETY: the mapping holds so many bytes, and no program runs while somebody has them.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr(), self.memory.bytes()) }
    }

    /// Returns the region table.
    pub fn regions(&mut self) -> &mut [Region] {
        &mut self.regions.all()[..REGIONS]
    }

    /// Returns the node page.
    pub fn node(&mut self) -> &mut NodePage {
        &mut self.node.all()[0]
    }

    /// Returns all counters, by [`Counter`].
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn counters(&self) -> Result<[u64; Counter::COUNT]> {
        let mut counters = [0; Counter::COUNT];
        for (index, counter) in counters.iter_mut().enumerate() {
            *counter = self.counters.get(&(index as u32), 0)?.iter().sum();
        }
        Ok(counters)
    }

    /// Returns the contents of a receive cell.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn cell(&self, cell: CellId) -> Result<[u8; CELL_BYTES]> {
        Ok(self.cells.get(&cell.index(), 0)?)
    }

    /// Replaces the contents of a receive cell.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn set_cell(&mut self, cell: CellId, bytes: &[u8; CELL_BYTES]) -> Result<()> {
        Ok(self.cells.set(cell.index(), bytes, 0)?)
    }

    /// Replaces the free receive cells; the last one is taken next. Returns the previous free cells in the same
    /// order.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn set_free_cells(&mut self, cells: &[CellId]) -> Result<Vec<CellId>> {
        let mut free: Vec<CellId> = core::iter::from_fn(|| self.free_cells.pop(0).ok().map(CellId)).collect();
        free.reverse();
        for cell in cells {
            self.free_cells.push(cell.0, 0)?;
        }
        self.node().cells_in_use.store((CELLS - cells.len()) as u64, Relaxed);
        Ok(free)
    }

    /// The timing wheel.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn wheel(&self) -> Result<Box<TimingWheel<CONNECTIONS>>> {
        let mut wheel = Box::new(TimingWheel::new());
        *words_of(&mut wheel) = self.wheel.get(&0, 0)?;
        Ok(wheel)
    }

    /// Replaces the timing wheel.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn set_wheel(&mut self, wheel: &TimingWheel<CONNECTIONS>) -> Result<()> {
        Ok(self.wheel.set(0, *words_of(&mut wheel.clone()), 0)?)
    }

    /// Returns the position of the engine's round robin.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn round_robin(&self) -> Result<u32> {
        Ok(self.round_robin.get(&0, 0)?)
    }

    /// Sets the position of the engine's round robin.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn set_round_robin(&mut self, slot: u32) -> Result<()> {
        Ok(self.round_robin.set(0, slot, 0)?)
    }
}
