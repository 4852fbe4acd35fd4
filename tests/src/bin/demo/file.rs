//! The file that is moved, and host B's copy of it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

use crate::measure::Progress;
use crate::options::Options;

/// The number of bytes handled at a time when a file is made, hashed or copied.
const BLOCK: usize = 1 << 20;
const MIB: u64 = 1 << 20;

/// Returns a SHA-256 in hexadecimal.
pub(crate) fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file to move, with its hash.
#[derive(Debug)]
pub(crate) struct Source {
    /// Where it is.
    pub(crate) path: PathBuf,
    file: File,
    /// Bytes, at least 1.
    pub(crate) length: u64,
    /// SHA-256, hexadecimal.
    pub(crate) sha256: String,
}

impl Source {
    /// Opens the given file. Without one, opens a generated file, and makes it if it does not exist yet.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        let path = match &options.file {
            Some(path) => path.clone(),
            None => generated(options.size)?,
        };
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        let metadata = file.metadata()?;
        ensure!(metadata.is_file(), "{} is not a regular file: choose another file", path.display());
        let length = metadata.len();
        ensure!(length != 0, "{} is empty: choose a file that is not empty", path.display());
        let mut source = Self { path, file, length, sha256: String::new() };
        source.sha256 = source.hash()?;
        Ok(source)
    }

    /// Fills `bytes` from `offset`.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let name = || format!("cannot read {}; was it changed?", self.path.display());
        self.file.read_exact_at(bytes, offset).with_context(name)
    }

    fn hash(&self) -> Result<String> {
        let progress = Progress::bytes("hash", self.length);
        let mut digest = Sha256::new();
        let mut block = vec![0; BLOCK];
        let mut offset = 0;
        while offset < self.length {
            let length = (self.length - offset).min(BLOCK as u64) as usize;
            self.read(offset, &mut block[..length])?;
            digest.update(&block[..length]);
            offset += length as u64;
            progress.add(length as u64);
        }
        Ok(hex(digest))
    }
}

/// The data that host B has received: a file without a name, which disappears when the program ends.
#[derive(Debug)]
pub(crate) struct Copy {
    file: File,
}

impl Copy {
    pub(crate) fn new() -> Result<Self> {
        let file = tempfile::tempfile_in(directory()?).context("cannot make a file for host B's copy")?;
        Ok(Self { file })
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }
}

/// Returns a directory in cargo's target directory, which contains this program. So the files are on disk, and
/// `cargo clean` removes them.
fn directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).map(|target| target.join("demo"));
    let directory = target.context("the program is not in cargo's target directory: start it with cargo")?;
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

/// Returns the path of the generated file of `mib` MiB, and makes the file the first time.
fn generated(mib: u64) -> Result<PathBuf> {
    let directory = directory()?;
    let path = directory.join(format!("random-{mib}MiB"));
    if path.metadata().is_ok_and(|metadata| metadata.len() == mib * MIB) {
        return Ok(path);
    }
    // The file gets its name only when it is complete.
    let mut file = tempfile::NamedTempFile::new_in(&directory)?;
    generate(&mut file, mib).with_context(|| format!("cannot write to {}", Path::display(&directory)))?;
    file.persist(&path)?;
    Ok(path)
}

/// `mib` MiB of noise, always the same.
fn generate(file: &mut impl Write, mib: u64) -> io::Result<()> {
    let progress = Progress::bytes("generate", mib * MIB);
    let mut noise = StdRng::seed_from_u64(mib);
    let mut block = vec![0; MIB as usize];
    for _ in 0..mib {
        noise.fill_bytes(&mut block);
        file.write_all(&block)?;
        progress.add(MIB);
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_file_is_noise_and_always_the_same() {
        let made = || {
            let mut bytes = Vec::new();
            generate(&mut bytes, 2).expect("a vector takes everything");
            bytes
        };
        let bytes = made();
        assert_eq!(bytes, made());
        assert_eq!(bytes.len() as u64, 2 * MIB);
        assert_ne!(bytes[..MIB as usize], bytes[MIB as usize..]);
    }

    #[test]
    fn hashes_are_written_as_people_know_them() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(Sha256::new().chain_update("abc")), abc);
    }
}
