//! Who takes part: from what a person names to programs that are there.
//!
//! `postgres` (the newest that is installed), `postgres-17` or `postgres-17.5` (that one),
//! `mariadb`; `NAME=PATH` for a build of Atoll, a folder of PostgreSQL's programs, or `mariadbd`.
//!
//! Invariants: paths of programs are absolute, for servers run in folders of their own.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Result;
use super::engine::{Atoll, Engine, MariaDb, Postgres};
use super::go_tpc;
use super::install::{self, Install};

/// What a person asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Another build of Atoll: this program.
    Atoll(PathBuf),
    /// A PostgreSQL.
    Postgres(Release),
    /// MariaDB; none: the installed one.
    MariaDb(Option<PathBuf>),
}

/// Which PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// The newest that is installed.
    Newest,
    /// A major version.
    Major(u32),
    /// One version.
    Exact(u32, u32),
    /// The one whose programs are in this folder.
    Folder(PathBuf),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted> {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (name, Some(program_at(path)?)),
            None => (text, None),
        };
        let version = name.strip_prefix("postgres-").map(|version| match version.split_once('.') {
            Some((major, minor)) => Some(Release::Exact(major.parse().ok()?, minor.parse().ok()?)),
            None => Some(Release::Major(version.parse().ok()?)),
        });
        match (name, path, version) {
            ("atoll", Some(path), _) => Ok(Wanted::Atoll(path)),
            ("postgres", Some(path), _) => Ok(Wanted::Postgres(Release::Folder(path))),
            ("postgres", None, _) => Ok(Wanted::Postgres(Release::Newest)),
            (_, None, Some(Some(release))) => Ok(Wanted::Postgres(release)),
            ("mariadb", path, _) => Ok(Wanted::MariaDb(path)),
            _ => Err("`postgres`, `postgres-MAJOR`, `postgres-MAJOR.MINOR`, `postgres=FOLDER`, \
                      `mariadb`, `mariadb=PROGRAM` or `atoll=PROGRAM`"
                .to_owned()),
        }
    }
}

/// The place of a program, or of a folder of them, as a person names it.
pub fn program_at(path: &str) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| format!("`{path}`: {error}"))
}

/// Somebody who takes part, with the programs found.
pub struct Contender {
    /// Name and version, as reports say it.
    pub version: String,
    /// What tells its builds apart that say the same.
    pub build: Option<String>,
    /// What it is.
    pub engine: Box<dyn Engine>,
}

impl Contender {
    /// Asks the programs for their version and build.
    pub fn new(engine: Box<dyn Engine>) -> Result<Contender> {
        Ok(Contender { version: engine.version()?, build: engine.build()?, engine })
    }
}

/// Where programs are looked for and installed.
#[derive(Clone, Debug)]
pub struct Places {
    /// Folders of programs, as PATH has them.
    pub path: Vec<PathBuf>,
    /// Debian's folders of PostgreSQL: MAJOR/bin.
    pub postgres: PathBuf,
    /// What Maven brings is unpacked here.
    pub cache: PathBuf,
    /// Whether what is missing may be installed.
    pub install: Install,
    /// Tells what is being installed: that takes a while.
    pub say: fn(&str),
}

impl Places {
    /// A program by its name.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        // Servers are often not in a person's path.
        let more = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
        let mut all = self.path.iter().chain(&more).map(|folder| folder.join(name));
        all.find(|path| path.is_file())
    }

    /// Folders of PostgreSQL's programs that are installed, the newest first, by major version.
    pub fn postgres_folders(&self) -> Vec<(u32, PathBuf)> {
        let entries = std::fs::read_dir(&self.postgres).into_iter().flatten().flatten();
        let major = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
        let mut found: Vec<(u32, PathBuf)> =
            entries.filter_map(|it| Some((major(&it.path())?, it.path().join("bin")))).collect();
        found.sort_by(|a, b| b.cmp(a));
        found
    }

    fn postgres_server(&self, major: Option<u32>) -> Option<PathBuf> {
        let fits = |(it, bin): &(u32, PathBuf)| {
            major.is_none_or(|major| major == *it) && bin.join("postgres").is_file()
        };
        self.postgres_folders().into_iter().find(fits).map(|(_, bin)| bin)
    }

    /// The folder of a server that is in the path, as other systems than Debian have it.
    fn postgres_in_path(&self) -> Option<PathBuf> {
        Some(self.program("postgres")?.parent()?.to_owned())
    }

    /// An installed server of which `is_it` says so, by its version as reports have it: `PostgreSQL 15.18`.
    fn postgres_of(&self, is_it: impl Fn(&str) -> bool) -> Option<PathBuf> {
        let debian = self.postgres_folders().into_iter().map(|(_, bin)| bin);
        let mut all = debian.chain(self.postgres_in_path());
        all.find(|bin| Postgres { bin: bin.clone() }.version().is_ok_and(|version| is_it(&version)))
    }

    /// A tool that clients are run with, installed if it may be. `package` is Debian's.
    pub fn tool(&self, name: &str, package: &str) -> Result<PathBuf> {
        let find = || {
            let beside = self.postgres_folders().into_iter().map(|(_, bin)| bin.join(name));
            self.program(name).or_else(|| beside.into_iter().find(|path| path.is_file()))
        };
        install::found_or_installed(self, name, &[package], find)
    }

    /// go-tpc: from the path if it speaks PostgreSQL's language, or installed if it may be.
    pub fn go_tpc(&self) -> Result<PathBuf> {
        let in_path = self.program("go-tpc").filter(|program| go_tpc::speaks_postgres(program));
        in_path.map_or_else(|| install::go_tpc_by_go(self), Ok)
    }

    /// The programs for what is wanted. Errors say what to do.
    pub fn contender(&self, wanted: &Wanted) -> Result<Contender> {
        let engine: Box<dyn Engine> = match wanted {
            Wanted::Atoll(program) => Box::new(Atoll { program: program.clone() }),
            Wanted::Postgres(release) => Box::new(Postgres { bin: self.postgres(release)? }),
            Wanted::MariaDb(server) => {
                let packages = ["mariadb-server-core", "mariadb-client-core"];
                let find = |name: &'static str| {
                    install::found_or_installed(self, name, &packages, || self.program(name))
                };
                let install = find("mariadb-install-db")?;
                let server = server.clone().map_or_else(|| find("mariadbd"), Ok)?;
                Box::new(MariaDb { server, install })
            }
        };
        let mut contender = Contender::new(engine)?;
        if let Wanted::Atoll(program) = wanted {
            // Another build says the same of itself.
            contender.version.push_str(&format!(" ({})", program.display()));
        }
        Ok(contender)
    }

    fn postgres(&self, release: &Release) -> Result<PathBuf> {
        match release {
            Release::Folder(bin) => Ok(bin.clone()),
            Release::Newest => {
                let find = || self.postgres_server(None).or_else(|| self.postgres_in_path());
                install::found_or_installed(self, "PostgreSQL", &["postgresql"], find)
            }
            Release::Major(major) => {
                let begins = format!("PostgreSQL {major}.");
                let in_path = || self.postgres_of(|version| version.starts_with(&begins));
                let installed = self.postgres_server(Some(*major)).or_else(in_path);
                installed.map_or_else(|| install::postgres_by_maven(self, *major, None), Ok)
            }
            Release::Exact(major, minor) => {
                let wanted = format!("PostgreSQL {major}.{minor}");
                let installed = self.postgres_of(|version| version == wanted);
                installed.map_or_else(|| install::postgres_by_maven(self, *major, Some(*minor)), Ok)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(crate) mod tests {
    use super::*;

    pub fn places(root: &Path) -> Places {
        let (postgres, cache) = (root.join("postgresql"), root.join("cache"));
        let path = vec![root.join("bin")];
        Places { path, postgres, cache, install: Install::Not, say: |_| () }
    }

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn names_are_read_or_refused() {
        let read = |text: &str| text.parse::<Wanted>();
        assert_eq!(read("postgres"), Ok(Wanted::Postgres(Release::Newest)));
        assert_eq!(read("postgres-17"), Ok(Wanted::Postgres(Release::Major(17))));
        assert_eq!(read("postgres-17.5"), Ok(Wanted::Postgres(Release::Exact(17, 5))));
        let folder = Release::Folder("/opt/pg/bin".into());
        assert_eq!(read("postgres=/opt/pg/bin"), Ok(Wanted::Postgres(folder)));
        assert_eq!(read("mariadb"), Ok(Wanted::MariaDb(None)));
        assert_eq!(read("atoll=/tmp/a"), Ok(Wanted::Atoll("/tmp/a".into())));
        // Servers run in folders of their own, so what is named from here is found from there.
        let here = std::env::current_dir().unwrap();
        assert_eq!(read("atoll=target/a"), Ok(Wanted::Atoll(here.join("target/a"))));
        assert!(read("atoll=").unwrap_err().contains("``"));
        for wrong in ["", "mysql", "postgres-", "postgres-x", "postgres-17=/x", "atoll"] {
            assert!(read(wrong).unwrap_err().contains("postgres-MAJOR"), "{wrong}");
        }
    }

    #[test]
    fn the_newest_server_is_taken_and_what_is_missing_is_named() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let missing = places.postgres(&Release::Newest).unwrap_err();
        assert!(missing.contains("apt-get install postgresql"), "{missing}");
        let in_path = root.path().join("bin");
        touch(&in_path.join("postgres"));
        assert_eq!(places.postgres(&Release::Newest), Ok(in_path));
        for major in ["9", "15", "14"] {
            touch(&places.postgres.join(major).join("bin/postgres"));
        }
        // Clients alone, without a server.
        touch(&places.postgres.join("16/bin/pgbench"));
        let bin = |major: &str| Ok(places.postgres.join(major).join("bin"));
        assert_eq!(places.postgres(&Release::Newest), bin("15"));
        assert_eq!(places.postgres(&Release::Major(9)), bin("9"));
        let missing = places.postgres(&Release::Major(18)).unwrap_err();
        assert!(missing.contains("--install"), "{missing}");
        assert_eq!(
            places.tool("pgbench", "postgresql-contrib"),
            Ok(places.postgres.join("16/bin/pgbench"))
        );
        // Of these only one says what it is.
        let program = places.postgres.join("15/bin/postgres");
        std::fs::write(
            &program,
            "#!/bin/sh\necho 'postgres (PostgreSQL) 15.18 (Debian 15.18-0)'\n",
        )
        .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        assert_eq!(places.postgres(&Release::Exact(15, 18)), bin("15"));
        let missing = places.postgres(&Release::Exact(15, 17)).unwrap_err();
        assert!(missing.contains("--install"), "{missing}");
        let missing = places.tool("no-such-bench", "sysbench").unwrap_err();
        assert!(missing.contains("apt-get install sysbench"), "{missing}");
    }
}
