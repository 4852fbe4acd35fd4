//! Tests the checks of the parameters.

use crate::{ContextCache, MemoryParameters, ParameterError, Parameters};

fn refused(change: impl FnOnce(&mut Parameters)) -> ParameterError {
    let mut parameters = Parameters::default();
    change(&mut parameters);
    ContextCache::<(), u32>::new(&parameters, ()).map(|_| ()).expect_err("impossible")
}

#[test]
fn impossible_parameters_say_what_would_be_possible() {
    assert_eq!(Parameters::default().check(), Ok(()));
    assert_eq!(refused(|p| p.entries = 0), ParameterError::Entries(0));
    let threshold = refused(|p| p.threshold = 4096);
    assert_eq!(threshold, ParameterError::Threshold { threshold: 4096, entries: 4096 });
    assert!(threshold.to_string().contains("nothing is ever evicted"));
    assert_eq!(refused(|p| p.lookup_cycles = 0), ParameterError::LookupCycles(0));
    assert_eq!(refused(|p| p.command_cycles = 1), ParameterError::CommandCycles(1));
    assert_eq!(refused(|p| p.deallocation_stall = 1025), ParameterError::DeallocationStall(1025));
    assert_eq!(refused(|p| p.miss_queue = 0), ParameterError::MissQueue(0));
    assert_eq!(refused(|p| p.connections = 0), ParameterError::Connections(0));
    assert_eq!(refused(|p| p.connections = (1 << 24) + 1), ParameterError::Connections((1 << 24) + 1));
    assert_eq!(refused(|p| p.context_bytes = 0), ParameterError::ContextBytes(0));
    let on_chip = refused(|p| (p.on_chip_connections, p.context_bytes) = (1 << 20, 1000));
    let room = 8 << 20;
    assert_eq!(on_chip, ParameterError::OnChip { connections: 1 << 20, bytes: 1000, room });
    for change in [
        |p: &mut MemoryParameters| p.latency = 0,
        |p: &mut MemoryParameters| p.jitter = u64::MAX,
        |p: &mut MemoryParameters| p.outstanding = 0,
        |p: &mut MemoryParameters| p.bytes_per_cycle = 0,
    ] {
        assert!(matches!(refused(|p| change(&mut p.on_chip)), ParameterError::Memory(_)));
        assert!(matches!(refused(|p| change(&mut p.off_chip)), ParameterError::Memory(_)));
    }
}

#[test]
fn parameters_survive_a_file() {
    let parameters = Parameters { entries: 7, threshold: 3, ..Parameters::default() };
    let text = serde_json::to_string(&parameters).expect("numbers and names");
    assert_eq!(serde_json::from_str::<Parameters>(&text).expect("its own text"), parameters);
}
