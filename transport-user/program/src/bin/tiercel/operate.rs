//! The commands `mr`, `write`, `read`, `send`, `recv` and `atomic`.

use std::io::Read;
use std::path::Path;

use tiercel::control::answer::{self, Completed, Receive, ReceiveState};
use tiercel::control::request::{self, AtomicOperation, Data, Place, Right};
use tiercel::control::{Hex, INLINE_LIMIT};
use tiercel_cli::decode::parse_hex;

use crate::exit::Exit;
use crate::output::{hex_dump, or_dash, print, print_json, print_raw, rate, size, table};
use crate::talk::{Node, absolute};
use crate::verb_arguments::{AtomicCommand, DataArguments, Mr, PlaceArguments, Recv, Remote};

pub(crate) async fn write(
    node: &Node,
    remote: Remote,
    data: DataArguments,
    immediate: Option<u32>,
    json: bool,
) -> Result<(), Exit> {
    let Remote { cid, rkey, address } = remote;
    let call = request::Write { cid, rkey, address, data: source(data)?, immediate };
    report("written", &node.ask(call).await?, json);
    Ok(())
}

pub(crate) async fn read(
    node: &Node,
    remote: Remote,
    length: u64,
    to: PlaceArguments,
    json: bool,
) -> Result<(), Exit> {
    let Remote { cid, rkey, address } = remote;
    let call = request::Read { cid, rkey, address, length, to: place(&to, json)? };
    let answer = node.ask(call).await?;
    if json {
        print_json(&answer);
        return Ok(());
    }
    if answer.hex.is_none() {
        report("read", &answer.completed, json);
        return Ok(());
    }
    show_bytes(answer.hex, address, to.raw);
    Ok(())
}

pub(crate) async fn send(
    node: &Node,
    cid: u32,
    data: DataArguments,
    immediate: Option<u32>,
    json: bool,
) -> Result<(), Exit> {
    let answer = node.ask(request::Send { cid, data: source(data)?, immediate }).await?;
    report("sent", &answer, json);
    Ok(())
}

/// Prints the outcome of an operation in one line.
fn report(what: &str, completed: &Completed, json: bool) {
    if json {
        return print_json(completed);
    }
    let Completed { bytes, seconds, status_text, .. } = completed;
    print(format!(
        "{bytes} bytes {what} in {:.1} us ({}): {status_text}",
        seconds * 1e6,
        rate(*bytes, *seconds)
    ));
}

pub(crate) async fn atomic(node: &Node, command: AtomicCommand, json: bool) -> Result<(), Exit> {
    let (remote, operation) = match command {
        AtomicCommand::FetchAdd { remote, add } => (remote, AtomicOperation::FetchAdd { add }),
        AtomicCommand::CompareSwap { remote, compare, swap } => {
            (remote, AtomicOperation::CompareSwap { compare, swap })
        }
    };
    let Remote { cid, rkey, address } = remote;
    let answer = node.ask(request::Atomic { cid, rkey, address, operation }).await?;
    if json {
        print_json(&answer);
        return Ok(());
    }
    let swapped = match answer.swapped {
        Some(true) => ", swapped",
        Some(false) => ", not swapped",
        None => "",
    };
    print(format!("previous value: {}{swapped}: {}", answer.original, answer.completed.status_text));
    Ok(())
}

pub(crate) async fn regions(node: &Node, command: Mr, json: bool) -> Result<(), Exit> {
    match command {
        Mr::Register { length, access, name, rkey } => {
            let access = access.into_iter().flatten().collect();
            let region = node.ask(request::RegisterRegion { length, access, name, rkey }).await?;
            match json {
                true => print_json(&region),
                false => {
                    print(format!("region of {} bytes: R_Key {}", region.info.length, region.info.key.0))
                }
            }
        }
        Mr::Deregister { rkey } => {
            let answer = node.ask(request::DeregisterRegion { rkey }).await?;
            match json {
                true => print_json(&answer),
                false => print(format!("region {} deregistered", answer.deregistered)),
            }
        }
        Mr::List => list_regions(&node.ask(request::Regions {}).await?, json),
        Mr::Read { rkey, offset, length, to } => {
            let call = request::ReadRegion { rkey, offset, length, to: place(&to, json)? };
            let content = node.ask(call).await?;
            match (json, content.hex.is_some()) {
                (true, _) => print_json(&content),
                (false, true) => show_bytes(content.hex, offset, to.raw),
                (false, false) => print(format!("{} bytes read", content.bytes)),
            }
        }
        Mr::Write { rkey, offset, data } => {
            let answer = node.ask(request::WriteRegion { rkey, offset, data: source(data)? }).await?;
            match json {
                true => print_json(&answer),
                false => print(format!("{} bytes written", answer.bytes)),
            }
        }
    }
    Ok(())
}

fn list_regions(regions: &[answer::Region], json: bool) {
    if json {
        return print_json(&regions);
    }
    if regions.is_empty() {
        return print("no regions: register one with `tiercel mr register 64MiB`");
    }
    let rights = |row: &answer::Region| {
        let access = row.info.access;
        let granted = [
            (access.remote_read, Right::RemoteRead),
            (access.remote_write, Right::RemoteWrite),
            (access.remote_atomic, Right::RemoteAtomic),
        ];
        let granted =
            granted.into_iter().filter(|(granted, _)| *granted).map(|(_, right)| <&str>::from(right));
        let names = granted.collect::<Vec<_>>().join(",");
        if names.is_empty() { "none".to_owned() } else { names }
    };
    print(table(
        regions,
        &[
            ("R_KEY", &|row| row.info.key.0.to_string()),
            ("LENGTH", &|row| size(row.info.length)),
            ("ACCESS", &rights),
            ("NAME", &|row| or_dash(row.name.as_ref())),
        ],
    ));
}

pub(crate) async fn receives(node: &Node, command: Recv, json: bool) -> Result<(), Exit> {
    let (cid, mut receives) = match command {
        Recv::Post { cid, length, count, wait } => {
            (cid, node.ask(request::PostReceive { cid, length, count, wait }).await?)
        }
        Recv::List { cid } => (cid, node.ask(request::Receives { cid }).await?),
    };
    if json {
        for receive in &mut receives {
            complete(node, cid, receive).await?;
        }
        print_json(&receives);
    } else if receives.is_empty() {
        print("no receives: post receives with `tiercel recv post CID`");
    } else {
        print(table(
            &receives,
            &[
                ("ID", &|row| row.id.to_string()),
                ("STATE", &|row| row.state.to_string()),
                ("LENGTH", &|row| row.length.to_string()),
                ("BYTES", &|row| or_dash(row.bytes)),
                ("IMMEDIATE", &|row| or_dash(row.immediate)),
                ("BEGINS", &beginning),
            ],
        ));
    }
    Ok(())
}

/// Fetches the rest of a message. The list has only its beginning.
async fn complete(node: &Node, cid: u32, receive: &mut Receive) -> Result<(), Exit> {
    let (Some(length), Some(Hex(message))) = (receive.bytes, &mut receive.hex) else { return Ok(()) };
    let length = u64::from(length).min(receive.length);
    while (message.len() as u64) < length {
        let offset = message.len() as u64;
        let part =
            request::Message { cid, id: receive.id, offset, length: INLINE_LIMIT.min(length - offset) };
        let Some(Hex(bytes)) = node.ask(part).await?.hex.filter(|Hex(bytes)| !bytes.is_empty()) else {
            return Err(Exit::node(format!(
                "the node sent no more bytes of the message in receive {}: list the receives again",
                receive.id
            )));
        };
        message.extend(bytes);
    }
    Ok(())
}

/// Returns the first bytes of a message, or the reason why the receive failed.
fn beginning(receive: &Receive) -> String {
    match (receive.state, &receive.error, &receive.hex) {
        (ReceiveState::Failed, Some(error), _) => error.clone(),
        (_, _, Some(Hex(bytes))) => bytes.escape_ascii().to_string(),
        _ => String::new(),
    }
}

/// Returns the source of the bytes of an operation.
fn source(data: DataArguments) -> Result<Data, Exit> {
    let inline = |bytes: &[u8]| {
        if bytes.len() as u64 > INLINE_LIMIT {
            return Err(Exit::usage(format!(
                "the data has more than {INLINE_LIMIT} bytes: write it to a file and use --file PATH"
            )));
        }
        Ok(Data::Hex(Hex(bytes.to_vec())))
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
        None => Err(Exit::usage("the data is missing: use --data, --hex, --file or --region")),
    }
}

/// Returns the destination of the bytes of an operation.
fn place(to: &PlaceArguments, json: bool) -> Result<Place, Exit> {
    match (&to.out, to.region) {
        _ if to.raw && json => {
            Err(Exit::usage("--raw and --json exclude each other: --raw prints only the bytes; choose one"))
        }
        (Some(path), _) => Ok(Place::File(absolute(path)?)),
        (None, Some((rkey, offset))) => Ok(Place::Region { rkey, offset }),
        (None, None) => Ok(Place::Reply),
    }
}

/// Prints bytes that were read: as a hex dump, or with `raw` without conversion. `first` is the offset of the
/// first byte.
fn show_bytes(bytes: Option<Hex>, first: u64, raw: bool) {
    let Hex(bytes) = bytes.unwrap_or_default();
    match raw {
        true => print_raw(&bytes),
        false => print(hex_dump(&bytes, first)),
    }
}
