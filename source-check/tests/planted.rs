//! Tests with small crates that contain mistakes on purpose.

use std::{fs, path::Path};

use source_check::{Disorder, Error, Graph, modules};
use tempfile::TempDir;

fn write(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn read(files: &[(&str, &str)]) -> Graph {
    modules(&write(files).path().join("lib.rs")).unwrap()
}

/// Returns `from -> to` of every import, without duplicates.
fn arrows(graph: &Graph) -> Vec<String> {
    let mut arrows: Vec<_> =
        graph.imports().iter().map(|import| format!("{} -> {}", import.from, import.to)).collect();
    arrows.dedup();
    arrows
}

/// Makes a crate with modules `a` and `b`, each in a file, with this code.
fn two(a: &str, b: &str) -> Graph {
    read(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)])
}

#[test]
fn a_planted_circle_is_found_with_its_places() {
    let graph = read(&[
        ("lib.rs", "mod a; mod b; mod c; mod outside;"),
        ("a.rs", "use crate::b::B;\npub struct A(B);"),
        ("b.rs", "use crate::c::C;\npub struct B(C);"),
        ("c.rs", "\npub struct C;\nfn back() { super::a::go() }"),
        ("outside.rs", "use crate::a::A;"),
    ]);
    let circles = graph.circles();
    assert_eq!(circles.len(), 1);
    assert_eq!(circles[0].modules, ["a", "b", "c"]);
    let imports = &circles[0].imports;
    let arrows: Vec<_> = imports.iter().map(|import| (&*import.from, &*import.to, import.line)).collect();
    // A name that is imported counts where it is imported and where it is used.
    assert_eq!(arrows, [("a", "b", 2), ("a", "b", 1), ("b", "c", 2), ("b", "c", 1), ("c", "a", 3)]);
    let back = &imports[4];
    assert_eq!((&*back.from, &*back.to, &*back.path, back.line), ("c", "a", "super::a::go", 3));
    assert!(back.file.ends_with("c.rs"));
    let shown = circles[0].to_string();
    assert!(shown.starts_with("circle of a, b, c:") && shown.contains("c.rs:3: super::a::go"), "{shown}");
    assert_eq!(shown.lines().count(), 4, "one line for each arrow: {shown}");
}

#[test]
fn two_circles_are_told_apart() {
    let graph = read(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::X as Y; use crate::c::X as Z; pub struct X;"),
        ("b.rs", "use crate::a::X as Z; pub struct X;"),
        ("c.rs", "use crate::d::X as Z; pub struct X;"),
        ("d.rs", "use crate::c::X as Z; pub struct X;"),
    ]);
    let names: Vec<_> = graph.circles().into_iter().map(|circle| circle.modules).collect();
    assert_eq!(names, [["a", "b"], ["c", "d"]]);
}

#[test]
fn without_a_way_back_there_is_no_circle() {
    assert_eq!(two("use crate::b::B; pub struct A(B);", "pub struct B;").circles(), []);
}

#[test]
fn every_form_of_a_path_is_an_import() {
    let forms = [
        "use crate::b::B;",
        "use super::b::{self as other, B};",
        "use crate::b::*;",
        "fn f(_: crate::b::B) {}",
        "fn f() { let _ = crate::b::make(); }",
        "fn f(x: u8) { match x { crate::b::LIMIT => {} _ => {} } }",
        "fn f() { use crate::b::B; }",
        "struct S<T>(Vec<Option<crate::b::B>>, T);",
        "impl crate::b::Go for u8 {}",
        "fn f() { println!(\"{}\", crate::b::LIMIT); }",
        "fn f() { assert!(matches!(1, crate::b::LIMIT)); }",
        "macro_rules! m { () => { $crate::b::make() } }",
        "fn f() -> impl Fn(crate::b::B) { |_| () }",
        "const C: [u8; crate::b::LIMIT as usize] = [];",
    ];
    for form in forms {
        let graph = two(form, "pub struct B; pub const LIMIT: u8 = 1; pub fn make() {} pub trait Go {}");
        assert_eq!(arrows(&graph), ["a -> b"], "{form}");
    }
}

#[test]
fn what_is_no_import_is_not_counted() {
    let others = [
        "use std::b::B;",
        "use ::b::B;",
        "/// See [`crate::b::B`].\npub struct A;",
        "#[cfg(test)] use crate::b::B;",
        "#[cfg(all(test, feature = \"x\"))] mod tests { use crate::b::B; }",
        "#[test] fn t() { crate::b::make(); }",
        "struct A; impl A { #[cfg(test)] fn f() { crate::b::make(); } }",
        "pub(in crate::b) struct A;",
        "fn f(b: u8) -> u8 { b }",
        "fn f(x: X) { println!(\"{}\", x.b); }",
        "fn f() { let text = \"crate::b::B\"; }",
    ];
    for other in others {
        let graph = two(other, "pub struct B; pub fn make() {}");
        assert_eq!(arrows(&graph), [""; 0], "{other}");
    }
    let graph = two("#[cfg(not(test))] use crate::b::B;", "pub struct B;");
    assert_eq!(arrows(&graph), ["a -> b"], "code that is left out of tests is code");
}

#[test]
fn a_re_export_is_followed_to_the_definition() {
    let graph = read(&[
        ("lib.rs", "mod net; mod user;"),
        ("net/mod.rs", "mod link; mod time; pub use link::Link; pub use self::time::*;"),
        ("net/link.rs", "use super::Time; pub struct Link(Time);"),
        ("net/time.rs", "pub struct Time;"),
        ("user.rs", "use crate::net::{Link, Time}; use crate::net; fn f() { net::Link::new() }"),
    ]);
    // The facade defines nothing that its children use, so there is no circle through it.
    assert_eq!(
        arrows(&graph),
        ["net::link -> net::time", "user -> net", "user -> net::link", "user -> net::time"]
    );
    assert_eq!(graph.circles(), []);
}

#[test]
fn a_re_export_from_elsewhere_is_an_import_and_its_user_imports_the_definer() {
    let graph = read(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub struct A;"),
        ("b.rs", "pub use crate::a::A;"),
        ("c.rs", "use crate::b::A;"),
    ]);
    assert_eq!(arrows(&graph), ["b -> a", "c -> a"]);
}

#[test]
fn a_name_imported_once_counts_wherever_it_is_used() {
    let graph = two("pub use crate::b::B; fn f() { B::new(); }", "pub struct B;");
    let lines: Vec<_> = graph.imports().iter().map(|import| &*import.path).collect();
    assert_eq!(lines, ["B::new", "crate::b::B"]);
}

#[test]
fn parents_and_children_can_form_a_circle() {
    let graph = read(&[
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod part; pub struct Whole(part::Part);"),
        ("a/part.rs", "use super::Whole; pub struct Part; fn f(_: Whole) {}"),
    ]);
    assert_eq!(graph.circles()[0].modules, ["a", "a::part"]);
    assert_eq!(graph.to_depth(1).circles(), [], "one module, seen from outside");
}

#[test]
fn the_root_takes_part() {
    let graph =
        read(&[("lib.rs", "mod a; pub struct Root(a::A);"), ("a.rs", "use crate::Root; pub struct A;")]);
    assert_eq!(graph.circles()[0].modules, ["a", "crate"]);
}

#[test]
fn an_exported_macro_belongs_to_its_module() {
    let graph = two("#[macro_export] macro_rules! m { () => {} }", "fn f() { crate::m!(); }");
    assert_eq!(arrows(&graph), ["b -> a"]);
}

#[test]
fn modules_inside_a_file_and_elsewhere_are_read() {
    let graph = read(&[
        (
            "lib.rs",
            "mod a { pub mod deep; pub mod here { use super::deep::D; } } #[path = \"odd/x.rs\"] mod b;",
        ),
        ("a/deep.rs", "pub struct D;"),
        ("odd/x.rs", "mod y;"),
        ("odd/y.rs", "use crate::a::deep::D;"),
    ]);
    assert_eq!(graph.modules().collect::<Vec<_>>(), ["a", "a::deep", "a::here", "b", "b::y", "crate"]);
    assert_eq!(arrows(&graph), ["a::here -> a::deep", "b::y -> a::deep"]);
}

#[test]
fn names_that_lead_in_circles_end() {
    let graph = two("pub use crate::b::*; fn f() { X::new() }", "pub use crate::a::*; pub use crate::a::Y;");
    assert_eq!(graph.circles()[0].modules, ["a", "b"]);
}

#[test]
fn an_order_is_held_and_a_breach_named() {
    let files = [
        ("lib.rs", "mod units; mod wire; mod link; pub use link::Link;"),
        ("units.rs", "pub struct Psn;"),
        ("wire.rs", "use crate::units::Psn;"),
        ("link/mod.rs", "mod queue; use crate::{units::Psn, wire}; pub struct Link;"),
        ("link/queue.rs", "use super::Link;"),
    ];
    let graph = read(&files);
    assert_eq!(graph.out_of_order(&["units", "wire", "link", "crate"]), []);

    let wrong = graph.out_of_order(&["wire", "units", "link", "crate"]);
    assert!(
        matches!(&wrong[..], [Disorder::Upward(import)] if import.from == "wire" && import.to == "units")
    );
    assert!(wrong[0].to_string().starts_with("against the order: wire -> units "));

    let deeper = graph.out_of_order(&["units", "wire", "link::queue", "link", "crate"]);
    assert!(matches!(&deeper[..], [Disorder::Upward(import)] if import.from == "link::queue"));

    let unlisted = graph.out_of_order(&["units", "link", "crate", "linker"]);
    assert_eq!(unlisted, [Disorder::Absent("linker".into()), Disorder::Unlisted("wire".into())]);
}

#[test]
fn an_impl_away_from_its_type_is_listed() {
    let graph = two(
        "use crate::b::Entry;\nimpl Entry { fn act(&self) {} }\nimpl Default for Entry {}\nstruct Own;\nimpl Own {}",
        "pub struct Entry; impl Entry {}",
    );
    let [scattered] = graph.scattered_impls() else { panic!("{:?}", graph.scattered_impls()) };
    assert_eq!(
        (&*scattered.of, &*scattered.home, &*scattered.module, scattered.line),
        ("Entry", "b", "a", 2)
    );
    assert_eq!(graph.to_depth(1).scattered_impls().len(), 1);
}

#[test]
fn what_cannot_be_read_is_said() {
    let missing = write(&[("lib.rs", "mod gone;")]);
    let error = modules(&missing.path().join("lib.rs")).unwrap_err();
    assert!(matches!(&error, Error::NoFile { name, .. } if name == "gone"));
    assert!(error.to_string().contains("neither gone.rs nor gone/mod.rs"), "{error}");

    let broken = write(&[("lib.rs", "\nmod {")]);
    let error = modules(&broken.path().join("lib.rs")).unwrap_err();
    assert!(error.to_string().contains("lib.rs:2: "), "{error}");

    assert!(matches!(modules(Path::new("/nowhere/lib.rs")).unwrap_err(), Error::File { .. }));
}

#[test]
fn the_functions_that_can_reach_a_value_are_found() {
    let a = "
        pub struct Whole { pub part: Part }
        pub struct Part;
        struct View<'a> { part: &'a mut Part }
        struct Holder<'a> { whole: &'a mut Whole }
        struct Outer<'a> { holder: Holder<'a> }
        struct Owner { whole: Whole }
        impl Whole { fn method(&self) {} fn new() -> Self { Self { part: Part } } }
        impl View<'_> { fn part(&mut self) {} }
        impl Trait for Holder<'_> { fn through(&mut self) {} }
        impl Outer<'_> { fn outer(&mut self) {} }
        fn takes(n: u32, whole: &mut Whole) {}
        fn takes_a_part(part: &mut Part) {}
        fn takes_a_holder(holder: Option<Holder<'_>>) {}
        fn takes_an_owner(owner: &Owner) {}
        once! { /// Text.
            fn in_a_macro(whole: &mut Whole) {} }
        once! { fn in_another(part: &mut Part) {} }
        #[test] fn of_tests(whole: Whole) {}
    ";
    let files =
        write(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", "fn other(whole: crate::a::Whole) {}")]);
    let found = source_check::holders(&files.path().join("lib.rs"), "a", &["Whole"]).unwrap();
    let expected =
        ["Whole::method", "Holder::through", "Outer::outer", "takes", "takes_a_holder", "in_a_macro"];
    assert_eq!(found, expected.map(|name| format!("a::{name}")));
}

#[test]
fn the_modules_of_a_table_are_listed() {
    let page = "\n## Other\n| module |\n|-|\n| `z` |\n\n## Owners\nText.\n\n| module | owns |\n|---|---|\n| `a`, `b` | `x` |\n| `c` | |\n\n| `d` |\n";
    assert_eq!(source_check::listed(page, "Owners"), ["a", "b", "c"]);
    assert_eq!(source_check::listed(page, "Nobody"), [""; 0]);
    assert_eq!(
        source_check::listed("\n## Owners\n| file |\n|-|\n| `a` |\n", "Owners"),
        [""; 0],
        "another table"
    );
}
