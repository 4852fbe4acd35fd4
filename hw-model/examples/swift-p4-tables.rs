//! Makes the tables of `p4/swift.p4` anew from transport-common's constants.

use std::{fs, io, path::Path};

use hw_model::p4::swift::generate::regenerate;

fn main() -> io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("p4/swift.p4");
    let source = fs::read_to_string(&path)?;
    fs::write(&path, regenerate(&source))
}
