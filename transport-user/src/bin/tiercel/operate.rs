//! `mr`, `write`, `read`, `send`, `recv`, `atomic` and `cp`.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use transport_user::connection_manager::Via;
use transport_user::control::{Atomic, CopyDirection, Data, INLINE_LIMIT, Place, Request};
use transport_user::decode::parse_hex;

use crate::cli::{AtomicCommand, DataArguments, Json, Mr, PlaceArguments, Recv};
use crate::exit::Exit;
use crate::output::{Bar, bytes_of, hex_dump, print, print_json, print_raw, rate, size, table, text};
use crate::talk::{Node, absolute};
use crate::values::{CopyPlace, Remote};

pub(crate) async fn write(
    node: &Node,
    remote: Remote,
    data: DataArguments,
    immediate: Option<u32>,
    json: Json,
) -> Result<(), Exit> {
    let Remote { cid, rkey, address } = remote;
    let request = Request::Write { cid, rkey, address, data: source(data)?, immediate };
    report("written", &node.ask(request).await?, json)
}

pub(crate) async fn read(node: &Node, remote: Remote, length: u64, to: PlaceArguments) -> Result<(), Exit> {
    let Remote { cid, rkey, address } = remote;
    let request = Request::Read { cid, rkey, address, length, to: place(&to)? };
    show_bytes(&node.ask(request).await?, address, &to)
}

pub(crate) async fn send(
    node: &Node,
    cid: u32,
    data: DataArguments,
    immediate: Option<u32>,
    json: Json,
) -> Result<(), Exit> {
    let answer = node.ask(Request::Send { cid, data: source(data)?, immediate }).await?;
    report("sent", &answer, json)
}

/// The outcome of an operation in one line.
fn report(what: &str, answer: &Value, json: Json) -> Result<(), Exit> {
    if json.json {
        print_json(answer);
        return Ok(());
    }
    let (bytes, seconds) = (answer["bytes"].as_u64().unwrap_or(0), answer["seconds"].as_f64().unwrap_or(0.0));
    print(format!(
        "{bytes} bytes {what} in {:.1} us ({}): {}",
        seconds * 1e6,
        rate(bytes, seconds),
        text(&answer["status_text"])
    ));
    Ok(())
}

pub(crate) async fn atomic(node: &Node, command: AtomicCommand) -> Result<(), Exit> {
    let (remote, operation, json) = match command {
        AtomicCommand::FetchAdd { remote, add, json } => (remote, Atomic::FetchAdd { add }, json),
        AtomicCommand::CompareSwap { remote, compare, swap, json } => {
            (remote, Atomic::CompareSwap { compare, swap }, json)
        }
    };
    let Remote { cid, rkey, address } = remote;
    let answer = node.ask(Request::Atomic { cid, rkey, address, operation }).await?;
    if json.json {
        print_json(&answer);
        return Ok(());
    }
    let swapped = match answer["swapped"].as_bool() {
        Some(true) => ", swapped",
        Some(false) => ", not swapped",
        None => "",
    };
    print(format!("before: {}{swapped}: {}", text(&answer["original"]), text(&answer["status_text"])));
    Ok(())
}

pub(crate) async fn regions(node: &Node, command: Mr) -> Result<(), Exit> {
    match command {
        Mr::Register { length, access, name, json } => {
            let access = access.into_iter().flatten().collect();
            let region = node.ask(Request::RegisterRegion { length, access, name }).await?;
            match json.json {
                true => print_json(&region),
                false => print(format!(
                    "region of {} bytes: R_Key {}",
                    text(&region["length"]),
                    text(&region["key"])
                )),
            }
            Ok(())
        }
        Mr::Deregister { rkey } => {
            node.ask(Request::DeregisterRegion { rkey }).await?;
            print(format!("region {rkey} deregistered"));
            Ok(())
        }
        Mr::List(json) => list_regions(&node.ask(Request::Regions).await?, json),
        Mr::Read { rkey, offset, length, to } => {
            let length = match length {
                Some(length) => length,
                None => rest_of_region(&node.ask(Request::Regions).await?, rkey, offset)?,
            };
            let request = Request::ReadRegion { rkey, offset, length, to: place(&to)? };
            show_bytes(&node.ask(request).await?, offset, &to)
        }
        Mr::Write { rkey, offset, data } => {
            let answer = node.ask(Request::WriteRegion { rkey, offset, data: source(data)? }).await?;
            print(format!("{} bytes written", text(&answer["bytes"])));
            Ok(())
        }
    }
}

fn rest_of_region(regions: &Value, rkey: u32, offset: u64) -> Result<u64, Exit> {
    let region = regions.as_array().into_iter().flatten().find(|region| region["key"] == rkey);
    let length = region.and_then(|region| region["length"].as_u64());
    let unknown = || Exit::usage(format!("no region of this node has R_Key {rkey}: see `tiercel mr list`"));
    let length = length.ok_or_else(unknown)?;
    length.checked_sub(offset).ok_or_else(|| Exit::usage(format!("the region ends at {length}")))
}

fn list_regions(regions: &Value, json: Json) -> Result<(), Exit> {
    let rows = regions.as_array().map(Vec::as_slice).unwrap_or_default();
    let rights = |row: &Value| {
        let named = [("remote_read", "read"), ("remote_write", "write"), ("remote_atomic", "atomic")];
        let granted: Vec<_> =
            named.iter().filter(|(field, _)| row["access"][field] == true).map(|(_, name)| *name).collect();
        if granted.is_empty() { "none".to_owned() } else { granted.join(",") }
    };
    if json.json {
        print_json(regions);
    } else if rows.is_empty() {
        print("no regions: register one with `tiercel mr register 64MiB`");
    } else {
        print(table(
            rows,
            &[
                ("R_KEY", &|row| text(&row["key"])),
                ("LENGTH", &|row| size(row["length"].as_u64().unwrap_or(0))),
                ("ACCESS", &rights),
                ("NAME", &|row| text(&row["name"])),
            ],
        ));
    }
    Ok(())
}

pub(crate) async fn receives(node: &Node, command: Recv) -> Result<(), Exit> {
    let (receives, json) = match command {
        Recv::Post { cid, length, count, wait, json } => {
            (node.ask(Request::PostReceive { cid, length, count, wait }).await?, json)
        }
        Recv::List { cid, json } => (node.ask(Request::Receives { cid }).await?, json),
    };
    let rows = receives.as_array().map(Vec::as_slice).unwrap_or_default();
    if json.json {
        print_json(&receives);
    } else if rows.is_empty() {
        print("no receives: post some with `tiercel recv post CID`");
    } else {
        print(table(
            rows,
            &[
                ("ID", &|row| text(&row["id"])),
                ("STATE", &|row| text(&row["state"])),
                ("R_KEY", &|row| text(&row["rkey"])),
                ("OFFSET", &|row| text(&row["offset"])),
                ("BYTES", &|row| text(&row["bytes"])),
                ("IMMEDIATE", &|row| text(&row["immediate"])),
                ("BEGINS", &|row| beginning(row)),
            ],
        ));
    }
    Ok(())
}

/// The first bytes of a message, or why it failed.
fn beginning(row: &Value) -> String {
    if let Some(error) = row["error"].as_str() {
        return error.to_owned();
    }
    bytes_of(&row["preview_hex"]).escape_ascii().to_string()
}

pub(crate) async fn copy(
    node: &Node,
    places: (CopyPlace, CopyPlace),
    via: Via,
    overwrite: bool,
    json: Json,
) -> Result<(), Exit> {
    let (cid, direction, file, name) = direct(places)?;
    let request = Request::Copy { cid, direction, file, name, via, overwrite };
    let bar = Bar::new();
    let report = node.ask_with_progress(request, |progress| bar.show(progress)).await?;
    drop(bar);
    if json.json {
        print_json(&report);
        return Ok(());
    }
    let (bytes, seconds) = (report["bytes"].as_u64().unwrap_or(0), report["seconds"].as_f64().unwrap_or(0.0));
    print(format!(
        "{bytes} bytes by {} in {seconds:.3} s ({}), SHA-256 {} at both ends",
        text(&report["via"]).to_uppercase(),
        rate(bytes, seconds),
        text(&report["sha256"])
    ));
    for path in report["removed"].as_array().into_iter().flatten() {
        print(format!("removed {}: left by a copy whose node was killed", text(path)));
    }
    Ok(())
}

/// Which way the copy goes: connection, direction, local file, name at the peer.
fn direct(places: (CopyPlace, CopyPlace)) -> Result<(u32, CopyDirection, PathBuf, String), Exit> {
    match places {
        (CopyPlace::Local(file), CopyPlace::Peer { cid, name }) => {
            let name = if name.is_empty() { file_name(&file)? } else { name };
            Ok((cid, CopyDirection::ToPeer, absolute(&file)?, name))
        }
        (CopyPlace::Peer { name, .. }, CopyPlace::Local(_)) if name.is_empty() => {
            Err(Exit::usage("name the file to fetch: CID:NAME"))
        }
        (CopyPlace::Peer { cid, name }, CopyPlace::Local(file)) => {
            let file = if file.is_dir() { file.join(&name) } else { file };
            Ok((cid, CopyDirection::FromPeer, absolute(&file)?, name))
        }
        (CopyPlace::Local(_), CopyPlace::Local(_)) => Err(Exit::usage(
            "one of the two places must be at a peer: CID:[NAME], with a CID of `tiercel conn list`",
        )),
        (CopyPlace::Peer { .. }, CopyPlace::Peer { .. }) => {
            Err(Exit::usage("one of the two places must be a path here"))
        }
    }
}

fn file_name(file: &Path) -> Result<String, Exit> {
    let name = file.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        Exit::usage(format!("{} has no name that could be kept: write CID:NAME", file.display()))
    })
}

/// Where the bytes of an operation come from.
fn source(data: DataArguments) -> Result<Data, Exit> {
    let inline = |bytes: &[u8]| {
        if bytes.len() as u64 > INLINE_LIMIT {
            return Err(Exit::usage(format!(
                "more than {INLINE_LIMIT} bytes must come from a file: use --file PATH"
            )));
        }
        Ok(Data::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    };
    if let Some(text) = data.data {
        return inline(text.as_bytes());
    }
    if let Some(hex) = data.hex {
        return inline(&parse_hex(&hex).map_err(Exit::usage)?);
    }
    if let Some(region) = data.region {
        return Ok(Data::Region { rkey: region.rkey, offset: region.offset, length: region.length });
    }
    match data.file {
        Some(path) if path == Path::new("-") => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(INLINE_LIMIT + 1).read_to_end(&mut bytes);
            read.map_err(|error| Exit::file(format!("cannot read stdin: {error}")))?;
            inline(&bytes)
        }
        Some(path) => Ok(Data::File(absolute(&path)?)),
        None => Err(Exit::usage("name the data: --data, --hex, --file or --region")),
    }
}

/// Where the bytes of an operation go.
fn place(to: &PlaceArguments) -> Result<Place, Exit> {
    match (&to.out, to.region) {
        (Some(path), _) => Ok(Place::File(absolute(path)?)),
        (None, Some((rkey, offset))) => Ok(Place::Region { rkey, offset }),
        (None, None) => Ok(Place::Reply),
    }
}

/// Bytes that were read: where they went, or the bytes themselves.
fn show_bytes(answer: &Value, first: u64, to: &PlaceArguments) -> Result<(), Exit> {
    let bytes = bytes_of(&answer["hex"]);
    if to.raw {
        return print_raw(&bytes);
    }
    if to.json {
        print_json(answer);
    } else if answer["hex"].is_string() {
        print(hex_dump(&bytes, first));
    } else {
        print(format!("{} bytes read", text(&answer["bytes"])));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(path: &str) -> CopyPlace {
        CopyPlace::Local(path.into())
    }

    fn peer(name: &str) -> CopyPlace {
        CopyPlace::Peer { cid: 5, name: name.into() }
    }

    #[test]
    fn exactly_one_end_of_a_copy_is_at_the_peer() {
        let (cid, direction, file, name) = direct((local("/x/a.bin"), peer(""))).unwrap();
        assert_eq!((cid, direction, name.as_str()), (5, CopyDirection::ToPeer, "a.bin"));
        assert_eq!(file, Path::new("/x/a.bin"));
        let (_, direction, file, name) = direct((peer("kept"), local("/x/y"))).unwrap();
        assert_eq!((direction, name.as_str()), (CopyDirection::FromPeer, "kept"));
        assert_eq!(file, Path::new("/x/y"));
        for places in
            [(local("a"), local("b")), (peer("a"), peer("b")), (peer(""), local("b")), (local("/"), peer(""))]
        {
            assert!(direct(places).is_err());
        }
    }

    #[test]
    fn fetching_into_a_directory_keeps_the_name() {
        let (_, _, file, _) = direct((peer("kept"), local("/"))).unwrap();
        assert_eq!(file, Path::new("/kept"));
    }
}
