//! Debian's kernels: which ones exist, and which files of their packages a guest needs.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

use anyhow::{Context, Result, bail};

use super::{packages::Archive, said::last_line, scratch::remove_dead};
use crate::shell::Progress;

/// Modules that a guest loads, if they are not built in. The modules that they depend on are loaded too.
const MODULES: [&str; 5] = ["virtio_pci", "virtio_console", "virtio_net", "e1000e", "veth"];

/// The file that lists the modules which were wanted when a kernel was fetched.
const WANTED: &str = "wanted";

/// Prefix of the name of a directory in which packages are unpacked. The process id follows.
const NEW: &str = ".new-";

/// The first Linux release that Tiercel supports. Tiercel must refuse an older one with a sentence.
pub(crate) const MINIMUM: (u32, u32) = (6, 9);

/// The requested kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The newest kernel that Debian has.
    Newest,
    /// The newest kernel of this series, such as 6.12.
    Series(u32, u32),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no kernel: say a series such as 6.12, or newest");
        if text == "newest" {
            return Ok(Self::Newest);
        }
        let (major, minor) = text.split_once('.').ok_or_else(wrong)?;
        Ok(Self::Series(major.parse().map_err(|_| wrong())?, minor.parse().map_err(|_| wrong())?))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => f.write_str("newest"),
            Self::Series(major, minor) => write!(f, "{major}.{minor}"),
        }
    }
}

/// A kernel release as its package names it, such as `6.12.117+deb13-amd64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release(String);

impl Release {
    /// Returns the release of a package with a kernel image, or `None` for other packages, flavours and
    /// metapackages.
    fn of_package(package: &str) -> Option<Self> {
        let release =
            package.strip_prefix("linux-image-").or_else(|| package.strip_prefix("linux-binary-"))?;
        let number = release.strip_suffix("-amd64")?;
        let plain = number.replace("deb", "").chars().all(|c| c.is_ascii_digit() || ".+-".contains(c));
        let three = number.split(['+', '-']).next()?.split('.').count() >= 3;
        (plain && three).then(|| Self(release.to_owned()))
    }

    /// Returns all numbers in the release.
    fn numbers(&self) -> Vec<u32> {
        self.0.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    }

    /// Returns the series, such as (6, 12).
    pub(crate) fn series(&self) -> (u32, u32) {
        let numbers = self.numbers();
        (numbers[0], numbers[1])
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Ord for Release {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers().cmp(&other.numbers()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Release {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A kernel that is ready to boot.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) release: Release,
    pub(crate) image: PathBuf,
    /// Modules in the order in which they must be loaded.
    pub(crate) modules: Vec<PathBuf>,
}

impl Kernel {
    /// Creates a kernel that cannot be booted.
    #[cfg(test)]
    pub(crate) fn of_release(release: &str) -> Self {
        Self { release: Release(release.to_owned()), image: "vmlinuz".into(), modules: vec![] }
    }

    /// Returns the series for display.
    pub(crate) fn series(&self) -> String {
        let (major, minor) = self.release.series();
        format!("{major}.{minor}")
    }

    /// Returns whether Tiercel must refuse the kernel.
    pub(crate) fn is_too_old(&self) -> bool {
        self.release.series() < MINIMUM
    }
}

/// Returns the newest release among the packages that matches the request.
fn choose(packages: &[String], wanted: Wanted) -> Option<Release> {
    let releases = packages.iter().filter_map(|package| Release::of_package(package));
    releases
        .filter(|release| match wanted {
            Wanted::Newest => true,
            Wanted::Series(major, minor) => release.series() == (major, minor),
        })
        .max()
}

/// Downloads a kernel from the archive into `dir`, unless it is already there.
///
/// # Errors
/// Says what could not be downloaded.
pub(crate) fn fetch(archive: &Archive, wanted: Wanted, dir: &Path, progress: &Progress) -> Result<Kernel> {
    let packages = archive.kernel_names()?;
    let release = choose(&packages, wanted).with_context(|| {
        format!("Debian has no package with the kernel {wanted}: `apt-cache pkgnames linux-image`")
    })?;
    let folder = dir.join(release.to_string());
    if !fs::read_to_string(folder.join(WANTED)).is_ok_and(|wanted| wanted == MODULES.join(" ")) {
        let _ = fs::remove_dir_all(&folder); // fetched for other modules
        progress.say(&format!("fetching Linux {release}"));
        remove_dead(dir, NEW);
        let scratch = dir.join(format!("{NEW}{}", std::process::id()));
        let fetched = unpack(archive, &packages, &release, &scratch)
            .and_then(|()| keep(&scratch.join("root"), &scratch.join("kept")))
            .and_then(|()| Ok(fs::rename(scratch.join("kept"), &folder)?));
        let _ = fs::remove_dir_all(&scratch);
        fetched.with_context(|| format!("Linux {release} cannot be had"))?;
    }
    let entries = fs::read_dir(folder.join("modules"))?;
    let mut modules = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    modules.sort();
    Ok(Kernel { release, image: folder.join("vmlinuz"), modules })
}

/// Unpacks the packages of a release. From 6.19 on, image and modules are in separate packages.
fn unpack(archive: &Archive, packages: &[String], release: &Release, scratch: &Path) -> Result<()> {
    let root = scratch.join("root");
    let binary = format!("linux-binary-{release}");
    if packages.contains(&binary) {
        archive.unpack(&binary, &root)?;
        return archive.unpack(&format!("linux-modules-{release}"), &root);
    }
    archive.unpack(&format!("linux-image-{release}"), &root)
}

/// Copies the image and the modules. The modules are decompressed and numbered.
fn keep(root: &Path, kept: &Path) -> Result<()> {
    let mut files = vec![];
    all_files(root, &mut files)?;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let image = files.iter().find(|path| name(path).starts_with("vmlinuz")).context("it has no vmlinuz")?;
    let found: BTreeMap<String, &PathBuf> =
        files.iter().filter_map(|path| Some((module_name(&name(path))?, path))).collect();
    let modules = kept.join("modules");
    fs::create_dir_all(&modules)?;
    let content = |module: &str| found.get(module).map(|path| uncompressed(path)).transpose();
    for (number, (module, bytes)) in in_order(&MODULES, content)?.into_iter().enumerate() {
        fs::write(modules.join(format!("{number:02}-{module}.ko")), bytes)?;
    }
    fs::copy(image, kept.join("vmlinuz"))?;
    Ok(fs::write(kept.join(WANTED), MODULES.join(" "))?)
}

fn all_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            all_files(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Returns the name of a module from the name of its file.
fn module_name(file: &str) -> Option<String> {
    let plain = file.strip_suffix(".xz").or_else(|| file.strip_suffix(".zst")).unwrap_or(file);
    Some(plain.strip_suffix(".ko")?.replace('-', "_"))
}

fn uncompressed(path: &Path) -> Result<Vec<u8>> {
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return Ok(fs::read(path)?),
    };
    let output = Command::new(program).arg("-dc").arg(path).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("{program} cannot unpack {}: {}", path.display(), last_line(&output.stderr));
    }
    Ok(output.stdout)
}

/// Returns the modules and all their dependencies. Each module comes after its dependencies. A module without
/// content is built into the kernel.
fn in_order(
    modules: &[&str],
    content: impl Fn(&str) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<(String, Vec<u8>)>> {
    fn visit(
        module: &str,
        content: &impl Fn(&str) -> Result<Option<Vec<u8>>>,
        done: &mut Vec<(String, Vec<u8>)>,
    ) -> Result<()> {
        if done.iter().any(|(name, _)| name == module) {
            return Ok(());
        }
        let Some(bytes) = content(module)? else { return Ok(()) };
        for needed in dependencies(&bytes) {
            visit(&needed, content, done)?;
        }
        done.push((module.to_owned(), bytes));
        Ok(())
    }
    let mut done = vec![];
    for module in modules {
        visit(module, &content, &mut done)?;
    }
    Ok(done)
}

/// Returns a module's dependencies: `depends=a,b` in its section `.modinfo`.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return vec![] };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_series_is_chosen_by_number() {
        let packages = [
            "linux-image-amd64",
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-56-amd64",
            "linux-image-6.1.0-57-cloud-amd64",
            "linux-image-6.1.0-57-rt-amd64",
            "linux-image-6.1.0-57-amd64-dbg",
            "linux-image-6.12-amd64",
            "linux-image-6.12.9+deb13-amd64",
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.12.117+deb13-amd64",
            "linux-binary-7.3.4+deb13-amd64",
            "linux-headers-7.4.1+deb13-amd64",
        ];
        let packages = packages.map(str::to_owned);
        let chosen =
            |wanted: &str| choose(&packages, wanted.parse().unwrap()).map(|release| release.to_string());
        assert_eq!(chosen("6.1").as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(chosen("6.12").as_deref(), Some("6.12.117+deb13-amd64"));
        assert_eq!(chosen("newest").as_deref(), Some("7.3.4+deb13-amd64"));
        assert_eq!(chosen("6.13"), None);
    }

    #[test]
    fn a_kernel_is_a_series_or_the_newest() {
        assert_eq!("6.12".parse(), Ok(Wanted::Series(6, 12)));
        assert_eq!("newest".parse(), Ok(Wanted::Newest));
        assert!("six".parse::<Wanted>().is_err());
        assert!("6.x".parse::<Wanted>().unwrap_err().contains("say a series"));
    }

    #[test]
    fn modules_come_after_what_they_need() {
        let content = |module: &str| {
            Ok(match module {
                "virtio_net" => Some(b"x\0depends=net-failover,virtio\0y".to_vec()),
                "net_failover" => Some(b"\0depends=failover\0".to_vec()),
                "failover" => Some(b"\0depends=\0".to_vec()),
                _ => None,
            })
        };
        let order = in_order(&["virtio_pci", "virtio_net", "failover"], content).unwrap();
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["failover", "net_failover", "virtio_net"]);
    }

    #[test]
    fn files_of_modules_have_several_endings() {
        for file in ["virtio-net.ko", "virtio-net.ko.xz", "virtio-net.ko.zst"] {
            assert_eq!(module_name(file).as_deref(), Some("virtio_net"));
        }
        assert_eq!(module_name("modules.dep"), None);
    }
}
