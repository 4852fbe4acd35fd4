//! Lists the circles of imports in a crate:
//! `cargo run -p source-check --example circles -- PATH/src/lib.rs [DEPTH]`.

use std::{env, error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let root = arguments.next().ok_or("give the path of a crate's lib.rs or main.rs")?;
    let mut graph = source_check::modules(Path::new(&root))?;
    if let Some(depth) = arguments.next() {
        graph = graph.to_depth(depth.parse()?);
    }
    let circles = graph.circles();
    println!(
        "{} modules, {} circles{}",
        graph.modules().count(),
        circles.len(),
        source_check::lines(&circles)
    );
    let scattered = graph.scattered_impls();
    println!("{} impls in another module than their type{}", scattered.len(), source_check::lines(scattered));
    Ok(())
}
