//! Regenerates the tables of `swift.p4` from the constants of transport-common.

use std::{fs, io, path::Path};

use swift_p4::generate::regenerate;

fn main() -> io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("swift.p4");
    let source = fs::read_to_string(&path)?;
    fs::write(&path, regenerate(&source))
}
