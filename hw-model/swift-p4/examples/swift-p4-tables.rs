//! Regenerates the tables of `swift.p4` from the constants of transport-common.

use std::{env, fs, io, path::Path};

use swift_p4::generate::regenerate;

fn main() -> io::Result<()> {
    let Some(crate_dir) = env::var_os("CARGO_MANIFEST_DIR") else {
        return Err(io::Error::other("start this with `cargo run`, which says where the sources are"));
    };
    let path = Path::new(&crate_dir).join("swift.p4");
    let source = fs::read_to_string(&path)?;
    fs::write(&path, regenerate(&source))
}
