//! What `tiercel cp` does with files that are not plain, with several at a time, and when something is in the way.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tiercel_tests::checks::{pattern, wait_until};
use tiercel_tests::cli::{NodeProcess, Outcome, program};
use tiercel_tests::{Pair, need_root};

/// Two nodes with a connection. B has a receive directory.
struct Nodes {
    a: NodeProcess,
    b: NodeProcess,
    cid: String,
    inbox: PathBuf,
    directory: TempDir,
    pair: Pair,
}

impl Nodes {
    fn up(options: &[&str]) -> Result<Self> {
        let (pair, directory) = (Pair::direct()?, TempDir::new()?);
        let inbox = directory.path().join("inbox");
        fs::create_dir(&inbox)?;
        let a = NodeProcess::on(&pair.a, directory.path(), "a", &[])?;
        let receive = ["--receive-dir", text(&inbox)?];
        let b = NodeProcess::on(&pair.b, directory.path(), "b", &[&receive, options].concat())?;
        let cid = a.json(&["conn", "connect", &pair.b.ipv4.to_string()])?["local_cid"].to_string();
        Ok(Self { a, b, cid, inbox, directory, pair })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        fs::write(self.path(name), bytes)?;
        Ok(self.path(name))
    }

    fn to(&self, name: &str) -> String {
        format!("{}:{name}", self.cid)
    }

    /// Runs `tiercel cp` at A to its end, with any result.
    fn cp(&self, arguments: &[&str]) -> Result<Outcome> {
        self.a.run(&[&["cp"], arguments].concat())
    }

    fn start(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = Command::new(program());
        command.arg("--socket").arg(self.a.socket()).arg("cp").args(arguments);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }

    fn received(&self, name: &str) -> Result<Vec<u8>> {
        Ok(fs::read(self.inbox.join(name))?)
    }

    /// Returns the names in the receive directory, in order.
    fn names(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(&self.inbox)?;
        let mut names: Vec<_> = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        names.sort();
        Ok(names)
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a plain path")
}

fn refused(outcome: Outcome, code: i32, says: &str) -> Result<String> {
    let Outcome { code: got, stderr, .. } = outcome;
    ensure!(got == code && stderr.contains(says), "exit code {got}, and not \"{says}\": {stderr}");
    Ok(stderr)
}

/// A copy that its user interrupts leaves nothing behind, and the next one goes over the same connection.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_next_copy_goes_after_an_interrupted_one() -> Result<()> {
    need_root();
    let nodes = Nodes::up(&[])?;
    // A hole that takes long to hash, behind data that takes long to send.
    let long = nodes.file("long", &pattern(64 << 20, 1))?;
    File::options().write(true).open(&long)?.set_len(64 << 30)?;
    let small = nodes.file("small", &pattern(100_000, 2))?;
    for (round, via) in ["send", "write", "read", "send"].into_iter().enumerate() {
        let name = format!("long-{round}");
        let mut copy = nodes.start(&[text(&long)?, &nodes.to(&name), "--via", via])?;
        wait_until("the copy is under way", || {
            nodes.names().is_ok_and(|names| names.iter().any(|n| n.contains(&name)))
        });
        copy.kill()?;
        copy.wait()?;
        let (from, to) = (text(&small)?, nodes.to(&format!("small-{round}")));
        refused(nodes.cp(&[from, &to, "--via", via])?, 0, "").with_context(|| format!("after {via}"))?;
        assert!(nodes.received(&format!("small-{round}"))? == pattern(100_000, 2));
        wait_until("the interrupted copy leaves no file", || {
            nodes.names().is_ok_and(|names| !names.iter().any(|n| n.contains(&name)))
        });
    }
    for node in [&nodes.a, &nodes.b] {
        wait_until("no receive and no operation is left", || {
            let pools = node.json(&["status"]).map(|status| status["pools"].clone()).unwrap_or_default();
            ["cells_in_use", "send_entries", "receive_entries", "completions"]
                .iter()
                .all(|pool| pools[pool] == 0)
        });
    }
    Ok(())
}

/// `xargs -P`, `make -j`: each waits for its turn.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn copies_at_the_same_time_all_arrive() -> Result<()> {
    need_root();
    let nodes = Nodes::up(&[])?;
    for via in ["send", "write"] {
        let name = |n: u64| format!("{via}-{n}");
        let started = (0..6).map(|n| {
            let file = nodes.file(&name(n), &pattern(3_000_000, n))?;
            nodes.start(&[text(&file)?, &nodes.to(""), "--via", via])
        });
        let started = started.collect::<Result<Vec<_>>>()?;
        for copy in started {
            let Output { status, stderr, .. } = copy.wait_with_output()?;
            ensure!(status.success(), "{via}: {}", String::from_utf8_lossy(&stderr));
        }
        for n in 0..6 {
            assert!(nodes.received(&name(n))? == pattern(3_000_000, n), "{}", name(n));
        }
    }
    Ok(())
}

/// A text of the peer names neither its numbers nor its paths. The connection has another number there.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn what_the_peer_says_is_true_here() -> Result<()> {
    need_root();
    let mut nodes = Nodes::up(&[])?;
    let peer = nodes.pair.b.ipv4.to_string();
    let other = nodes.a.json(&["conn", "connect", &peer])?;
    nodes.b.ok(&["conn", "close", &other["peer_cid"].to_string()])?;
    wait_until("A has closed as well", || {
        nodes.a.json(&["conn", "list"]).is_ok_and(|list| list.as_array().is_some_and(|list| list.len() == 1))
    });
    nodes.a.ok(&["down"])?;
    nodes.a.ended()?;
    let own = nodes.pair.a.ipv4.to_string();
    nodes.a = NodeProcess::on(&nodes.pair.a, nodes.directory.path(), "a", &[])?;
    nodes.b.json(&["conn", "connect", &own])?;
    let connection = nodes.a.json(&["conn", "connect", &peer])?;
    nodes.cid = connection["local_cid"].to_string();
    let there = connection["peer_cid"].to_string();
    assert_ne!(there, nodes.cid, "with equal numbers this test shows nothing");
    let file = nodes.file("file", b"x")?;
    let (from, to) = (text(&file)?, nodes.to(""));
    nodes.b.ok(&["recv", "post", &there, "--length", "64"])?;
    let said = refused(nodes.cp(&[from, &to, "--via", "send"])?, 5, "--via write")?;
    ensure!(!said.contains(&format!("connection {there}")), "it has the number of the peer: {said}");
    refused(nodes.cp(&[from, &to, "--via", "write"])?, 0, "")?;
    let said = refused(nodes.cp(&[from, &to, "--via", "write"])?, 5, "\"file\" already exists")?;
    ensure!(!said.contains(text(&nodes.inbox)?), "it names a path of the peer: {said}");
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn files_keep_what_they_are() -> Result<()> {
    need_root();
    let nodes = Nodes::up(&[])?;
    // Permissions.
    for (name, mode, taken) in [("key", 0o600, 0o600), ("run", 0o755, 0o755), ("open", 0o666, 0o644)] {
        let file = nodes.file(name, b"x")?;
        fs::set_permissions(&file, Permissions::from_mode(mode))?;
        refused(nodes.cp(&[text(&file)?, &nodes.to("")])?, 0, "")?;
        let mode = |path: &Path| Ok::<_, anyhow::Error>(fs::metadata(path)?.permissions().mode() & 0o7777);
        assert_eq!(mode(&nodes.inbox.join(name))?, taken, "{name}");
        let back = nodes.path(&format!("back-{name}"));
        refused(nodes.cp(&[&nodes.to(name), text(&back)?])?, 0, "")?;
        assert_eq!(mode(&back)?, taken, "{name}, back");
    }
    // Holes.
    let holes = File::create(nodes.path("holes"))?;
    holes.write_all_at(&pattern(1 << 20, 3), 50 << 20)?;
    holes.set_len(500 << 20)?;
    refused(nodes.cp(&[text(&nodes.path("holes"))?, &nodes.to("")])?, 0, "")?;
    let stored = fs::metadata(nodes.inbox.join("holes"))?;
    assert_eq!(stored.len(), 500 << 20);
    assert!(stored.blocks() * 512 < 10 << 20, "{} blocks", stored.blocks());
    // The length of a file of /proc is 0.
    refused(nodes.cp(&["/proc/version", &nodes.to("")])?, 0, "")?;
    assert_eq!(nodes.received("version")?, fs::read("/proc/version")?);
    // What has no length.
    let pipe = nodes.path("pipe");
    nix_mkfifo(&pipe)?;
    refused(
        nodes.cp(&[text(&pipe)?, &nodes.to("")])?,
        5,
        "is a pipe, and the length of a copy must be known",
    )?;
    refused(nodes.cp(&["/dev/zero", &nodes.to("")])?, 5, "is a device, not a file")?;
    // A path means what it means to the caller: here its own stdin, which is a file without a name.
    let mut file = tempfile::tempfile()?;
    file.write_all(b"by descriptor")?;
    let mut command = Command::new(program());
    command.arg("--socket").arg(nodes.a.socket()).args(["cp", "/dev/stdin", &nodes.to("stdin")]);
    let outcome: Outcome = command.stdin(file).output()?.try_into()?;
    refused(outcome, 0, "")?;
    assert_eq!(nodes.received("stdin")?, b"by descriptor");
    Ok(())
}

fn nix_mkfifo(path: &Path) -> Result<()> {
    ensure!(Command::new("mkfifo").arg(path).status()?.success(), "mkfifo");
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn several_files_and_directories() -> Result<()> {
    need_root();
    let nodes = Nodes::up(&[])?;
    let (one, two) = (nodes.file("one", b"1")?, nodes.file("two", b"22")?);
    let (one, two) = (text(&one)?, text(&two)?);
    let printed = refused(nodes.cp(&[one, two, &nodes.to("")])?, 0, "");
    printed.context("two files")?;
    assert_eq!((nodes.received("one")?, nodes.received("two")?), (b"1".to_vec(), b"22".to_vec()));
    // One of three fails. The others go, and the failure is told.
    let outcome = nodes.cp(&["/nonexistent", one, two, &nodes.to("again"), "--json"])?;
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("/nonexistent"), "{}", outcome.stderr);
    let answers: Value = serde_json::from_str(&outcome.stdout)?;
    assert_eq!(answers.as_array().map(Vec::len), Some(3), "{answers}");
    assert_eq!(answers[0]["error"]["kind"], "file");
    // There is no directory `again` at the peer.
    assert_eq!(answers[1]["error"]["kind"], "file", "{answers}");
    let tree = nodes.path("tree");
    fs::create_dir_all(tree.join("deep/.hidden"))?;
    fs::write(tree.join("deep/.hidden/file"), b"deep")?;
    fs::write(tree.join("file"), b"flat")?;
    fs::set_permissions(tree.join("deep"), Permissions::from_mode(0o700))?;
    refused(nodes.cp(&[text(&tree)?, &nodes.to("")])?, 5, "copy it with -r")?;
    let outcome = nodes.cp(&["-r", text(&tree)?, &nodes.to("")])?;
    for directory in ["tree", "tree/deep", "tree/deep/.hidden"] {
        let said = format!("{}: directory\n", nodes.path(directory).display());
        assert!(outcome.stdout.contains(&said), "{said} in {}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains(": 0 bytes"), "{}", outcome.stdout);
    refused(outcome, 0, "")?;
    let outcome = nodes.cp(&["-r", text(&tree)?, &nodes.to("second"), "--json"])?;
    let answers: Value = serde_json::from_str(&outcome.stdout)?;
    let kinds: Vec<_> = answers.as_array().into_iter().flatten().map(|answer| &answer["kind"]).collect();
    assert_eq!(kinds, ["directory", "directory", "directory", "file", "file"], "{answers}");
    assert_eq!(nodes.received("tree/deep/.hidden/file")?, b"deep");
    assert_eq!(nodes.received("tree/file")?, b"flat");
    assert_eq!(fs::metadata(nodes.inbox.join("tree/deep"))?.permissions().mode() & 0o7777, 0o700);
    refused(nodes.cp(&[one, two, &nodes.to("tree/deep")])?, 0, "")?;
    let desk = nodes.path("desk");
    fs::create_dir(&desk)?;
    let (deep, flat) = (nodes.to("tree/deep/one"), nodes.to("tree/file"));
    refused(nodes.cp(&[&deep, &flat, text(&desk)?])?, 0, "")?;
    assert_eq!(
        (fs::read(desk.join("one"))?, fs::read(desk.join("file"))?),
        (b"1".to_vec(), b"flat".to_vec())
    );
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn directories_come_from_a_peer() -> Result<()> {
    need_root();
    let nodes = Nodes::up(&[])?;
    let tree = nodes.inbox.join("tree");
    fs::create_dir_all(tree.join("deep/.hidden"))?;
    fs::create_dir(tree.join("empty"))?;
    fs::write(tree.join("deep/.hidden/file"), b"deep")?;
    fs::write(tree.join("file"), b"flat")?;
    fs::write(tree.join("back\\slash"), b"x")?;
    symlink("file", tree.join("link"))?;
    fs::set_permissions(tree.join("empty"), Permissions::from_mode(0o500))?;
    fs::write(nodes.inbox.join("other"), b"other")?;
    fs::write(nodes.inbox.join(".private"), b"no peer may fetch it")?;
    let desk = nodes.path("desk");
    fs::create_dir(&desk)?;
    refused(nodes.cp(&[&nodes.to("tree"), text(&desk)?])?, 5, "copy it with `cp -r`")?;
    // Into a directory that is there, and under a new name.
    let outcome = nodes.cp(&["-r", &nodes.to("tree"), text(&desk)?])?;
    for said in [
        "tree/link is a symbolic link: not copied",
        "tree/back\\\\slash is no file, or its name cannot cross",
    ] {
        assert!(outcome.stderr.contains(said), "{said} in {}", outcome.stderr);
    }
    refused(outcome, 0, "")?;
    let made = desk.join("tree");
    assert_eq!(fs::read(made.join("deep/.hidden/file"))?, b"deep");
    assert_eq!(fs::read(made.join("file"))?, b"flat");
    assert_eq!(fs::metadata(made.join("empty"))?.permissions().mode() & 0o7777, 0o500);
    assert_eq!(names(&made)?, ["deep", "empty", "file"]);
    let outcome = nodes.cp(&["-r", &nodes.to("tree/deep/"), text(&nodes.path("new"))?, "--json"])?;
    let answers: Value = serde_json::from_str(&outcome.stdout)?;
    assert_eq!((&answers[0]["name"], &answers[0]["kind"]), (&json!("tree/deep"), &json!("directory")));
    assert_eq!(answers[2]["bytes"], 4, "{answers}");
    assert_eq!(fs::read(nodes.path("new/.hidden/file"))?, b"deep");
    // A file, and the whole receive directory.
    refused(nodes.cp(&["-r", &nodes.to("other"), text(&nodes.path("alone"))?])?, 0, "")?;
    assert_eq!(fs::read(nodes.path("alone"))?, b"other");
    let all = nodes.path("all");
    refused(nodes.cp(&["-r", &nodes.to(""), text(&all)?])?, 0, "")?;
    assert_eq!(names(&all)?, ["other", "tree"]);
    // What is there already stays, and the others are copied.
    fs::remove_file(made.join("file"))?;
    refused(nodes.cp(&["-r", &nodes.to("tree"), text(&desk)?])?, 5, "already exists")?;
    assert_eq!(fs::read(made.join("file"))?, b"flat");
    // Nothing leads out of the receive directory.
    symlink(nodes.directory.path(), nodes.inbox.join("out"))?;
    refused(
        nodes.cp(&["-r", &nodes.to("out"), text(&nodes.path("stolen"))?])?,
        5,
        "leads out of the directory",
    )?;
    refused(nodes.cp(&["-r", &nodes.to(".."), text(&nodes.path("stolen"))?])?, 2, "cannot be the name")?;
    refused(nodes.cp(&["-r", &nodes.to("missing"), text(&nodes.path("stolen"))?])?, 5, "No such file")?;
    assert!(!nodes.path("stolen").exists());
    Ok(())
}

fn names(directory: &Path) -> Result<Vec<String>> {
    let mut names = vec![];
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// What a stranger may do with the receive directory.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_receive_directory_has_limits() -> Result<()> {
    need_root();
    let nodes = Nodes::up(&["--receive-max-file", "1MiB", "--receive-max-total", "2560KiB"])?;
    let (big, fits) =
        (nodes.file("big", &pattern((1 << 20) + 1, 1))?, nodes.file("fits", &pattern(1 << 20, 2))?);
    let (big, fits) = (text(&big)?, text(&fits)?);
    refused(nodes.cp(&[big, &nodes.to("")])?, 5, "takes files of at most 1048576")?;
    refused(nodes.cp(&[fits, &nodes.to("1")])?, 0, "")?;
    refused(nodes.cp(&[fits, &nodes.to("2")])?, 0, "")?;
    refused(nodes.cp(&[fits, &nodes.to("3")])?, 5, "the receive directory holds")?;
    refused(nodes.cp(&["--overwrite", fits, &nodes.to("1")])?, 5, "does not let its peers replace files")?;
    wait_until("only what was taken is there", || nodes.names().is_ok_and(|names| names == ["1", "2"]));
    let status = nodes.b.json(&["status"])?;
    assert_eq!(status["receive_limits"]["max_file"], 1 << 20);
    assert_eq!(status["receive_limits"]["overwrite"], false);
    // Symbolic links that lead out are not followed, neither to read nor to write.
    let secret = nodes.file("secret", b"s")?;
    symlink(&secret, nodes.inbox.join("link"))?;
    symlink(nodes.directory.path(), nodes.inbox.join("out"))?;
    let back = nodes.path("back");
    for name in ["link", "out/secret"] {
        refused(nodes.cp(&[&nodes.to(name), text(&back)?])?, 5, "leads out of the directory")?;
    }
    refused(nodes.cp(&[fits, &nodes.to("out/new")])?, 5, "leads out of the directory")?;
    assert!(!back.exists() && !nodes.path("new").exists());
    Ok(())
}
