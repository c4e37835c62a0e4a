//! Settings of `atoll serve`: flags, then `ATOLL_*` variables, then `atoll.toml`.
//!
//! Invariants: one table names every setting; whatever sets one goes through the same reader, so a
//! value means the same everywhere; an unknown name or a value that cannot be is an error that
//! names where it was set; nothing is ignored.

use std::path::{Path, PathBuf};

use atoll_kernel::api::{ClockChoice, Instances, Options, Pin};
use atoll_kernel::io::IoChoice;

use crate::error::{Result, ServerError};
use crate::session::{Exchanges, SessionOptions};

/// The file in the data directory.
pub const FILE_NAME: &str = "atoll.toml";

/// One setting: its name in the file (the flag has `-` for `_`, the variable `ATOLL_` before it in
/// capitals), and what it does.
struct Setting {
    name: &'static str,
    apply: fn(&mut Config, &str) -> std::result::Result<(), String>,
}

const SETTINGS: &[Setting] = &[
    Setting { name: "listen", apply: listen },
    Setting { name: "socket_dir", apply: socket_dir },
    Setting { name: "instances", apply: instances },
    Setting {
        name: "buffer_pool",
        apply: |config, text| size(text, &mut config.options.buffer_pool_bytes),
    },
    Setting { name: "prefault", apply: prefault },
    Setting {
        name: "undo_memory",
        apply: |config, text| size(text, &mut config.options.undo_bytes),
    },
    Setting { name: "log_segment", apply: log_segment },
    Setting { name: "checkpoint_interval", apply: checkpoint_interval },
    Setting { name: "checkpoint_wal", apply: checkpoint_wal },
    Setting { name: "checkpoint_pin_limit", apply: checkpoint_pin_limit },
    Setting { name: "archive_directory", apply: archive_directory },
    Setting { name: "clock", apply: clock },
    Setting { name: "io", apply: io },
    Setting { name: "pin", apply: pin },
    Setting {
        name: "deadlock_timeout_ms",
        apply: |config, text| number(text, &mut config.options.deadlock_timeout_ms),
    },
    Setting {
        name: "sessions_max",
        apply: |config, text| number(text, &mut config.sessions.sessions_max),
    },
    Setting { name: "exchange_sessions", apply: exchange_sessions },
    Setting { name: "admission_max", apply: admission_max },
    Setting {
        name: "authentication_timeout_ms",
        apply: |config, text| number(text, &mut config.sessions.authentication_timeout_ms),
    },
];

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// TCP addresses.
    pub listen: Vec<String>,
    /// The folder of the unix socket.
    pub socket_dir: Option<PathBuf>,
    /// The database's options.
    pub options: Options,
    /// The sessions' options.
    pub sessions: SessionOptions,
}

impl Config {
    /// Reads `atoll.toml` in `data`, if there is one, then the variables that `variable` answers,
    /// then `flags` (names as in the file).
    pub fn gather(
        data: &Path,
        variable: impl Fn(&str) -> Option<String>,
        flags: &[(&str, String)],
    ) -> Result<Config> {
        let mut config = Config {
            data: data.to_owned(),
            listen: vec!["127.0.0.1:5432".to_owned()],
            socket_dir: None,
            options: Options::default(),
            sessions: SessionOptions::default(),
        };
        config.read_file(&data.join(FILE_NAME))?;
        for setting in SETTINGS {
            let name = format!("ATOLL_{}", setting.name.to_ascii_uppercase());
            if let Some(value) = variable(&name) {
                config.set(setting.name, &value, &name)?;
            }
        }
        for (name, value) in flags {
            config.set(name, value, &format!("--{}", name.replace('_', "-")))?;
        }
        Ok(config)
    }

    fn read_file(&mut self, path: &Path) -> Result<()> {
        let origin = path.display().to_string();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(ServerError::Setting { origin, problem: error.to_string() });
            }
        };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            ServerError::Setting { origin: origin.clone(), problem: error.to_string() }
        })?;
        for (name, value) in &table {
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(value) => if *value { "on" } else { "off" }.to_owned(),
                _ => {
                    let problem = format!("{name} is not a text, a number or true or false");
                    return Err(ServerError::Setting { origin, problem });
                }
            };
            self.set(name, &value, &origin)?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str, origin: &str) -> Result<()> {
        let problem = match SETTINGS.iter().find(|setting| setting.name == name) {
            None => format!("there is no setting \"{name}\""),
            Some(setting) => match (setting.apply)(self, value.trim()) {
                Ok(()) => return Ok(()),
                Err(expected) => format!("{name} = \"{value}\": {expected}"),
            },
        };
        Err(ServerError::Setting { origin: origin.to_owned(), problem })
    }
}

fn listen(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.listen = match text {
        "" | "none" => Vec::new(),
        _ => text.split(',').map(|address| with_port(address.trim())).collect(),
    };
    Ok(())
}

fn with_port(address: &str) -> String {
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && !host.ends_with(':'));
    if has_port { address.to_owned() } else { format!("{address}:5432") }
}

fn socket_dir(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.socket_dir = (!text.is_empty()).then(|| PathBuf::from(text));
    Ok(())
}

fn instances(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.options.instances = match text {
        "auto" => Instances::Auto,
        _ => match text.parse() {
            Ok(count @ 1..=512) => Instances::Count(count),
            _ => return Err("auto, or a number from 1 to 512".to_owned()),
        },
    };
    Ok(())
}

/// An instance has memory for the stack of each: 256 KiB of addresses, and what is touched of it.
fn admission_max(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.options.runtime.admission_max = match text.parse() {
        Ok(count @ 1..=10_000) => count,
        _ => return Err("a number from 1 to 10000".to_owned()),
    };
    Ok(())
}

fn clock(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.options.clock = match text {
        "auto" => ClockChoice::Auto,
        "tsc" => ClockChoice::Tsc,
        "counter" => ClockChoice::Counter,
        _ => return Err("auto, tsc or counter".to_owned()),
    };
    Ok(())
}

fn io(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.options.rings = match text {
        "auto" => IoChoice::Auto,
        "uring" => IoChoice::Uring,
        "threads" => IoChoice::Threads,
        _ => return Err("auto, uring or threads".to_owned()),
    };
    Ok(())
}

fn prefault(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.options.prefault = text.parse()?;
    Ok(())
}

fn pin(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.options.pin = match text {
        "auto" | "on" => Pin::Auto,
        "off" => Pin::No,
        _ => return Err("auto or off".to_owned()),
    };
    Ok(())
}

fn exchange_sessions(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.sessions.exchanges = match text {
        "on" => Exchanges::On,
        "off" => Exchanges::Off,
        "always" => Exchanges::Always,
        _ => return Err("on, off or always".to_owned()),
    };
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str, into: &mut T) -> std::result::Result<(), String> {
    *into = text.parse().map_err(|_| "a number that is not negative".to_owned())?;
    Ok(())
}

/// A segment holds several buffers of the log, in whole blocks.
fn log_segment(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    let mut bytes = 0;
    size(text, &mut bytes)?;
    let least = 4 * config.options.log_buffer_bytes as u64;
    if bytes < least || bytes % 4096 != 0 {
        return Err(format!("a multiple of 4kB, at least {}MB", least >> 20));
    }
    config.options.log_segment_bytes = bytes;
    Ok(())
}

fn checkpoint_interval(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.options.checkpoint_interval_ms = interval_ms(text)?;
    Ok(())
}

fn checkpoint_wal(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    config.options.checkpoint_wal_bytes = wal_bytes(text)?;
    Ok(())
}

fn checkpoint_pin_limit(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    let expected = |_| "a size from 1MB to 1024TB, as 1GB, or 0 for as much as the data takes";
    config.options.checkpoint_pin_bytes = wal_bytes(text).map_err(expected)?;
    Ok(())
}

/// Absolute, so that it does not depend on where the server was started; empty: logs are not
/// archived.
fn archive_directory(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    let path = PathBuf::from(text);
    if !text.is_empty() && !path.is_absolute() {
        return Err("an absolute path, or nothing".to_owned());
    }
    config.options.archive_directory = (!text.is_empty()).then_some(path);
    Ok(())
}

/// What `checkpoint_interval` may be: milliseconds of a time from 100 ms to a week, or 0 for never.
pub fn interval_ms(text: &str) -> std::result::Result<u64, String> {
    const WEEK_MS: u64 = 7 * 86_400_000;
    let expected = || "a time from 100ms to 7d, as 60s or 5min, or 0 for never".to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: u64 = digits.parse().map_err(|_| expected())?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" if number == 0 => 0,
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(expected()),
    };
    match number.checked_mul(factor) {
        Some(time_ms @ (0 | 100..=WEEK_MS)) => Ok(time_ms),
        _ => Err(expected()),
    }
}

/// What `checkpoint_wal` may be: bytes of a size from 1 MB to 1024 TB, or 0 for never.
pub fn wal_bytes(text: &str) -> std::result::Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let mut bytes = 0;
    match size(text, &mut bytes) {
        Ok(()) if (1 << 20..=1 << 50).contains(&bytes) => Ok(bytes),
        _ => Err("a size from 1MB to 1024TB, as 1GB, or 0 for never".to_owned()),
    }
}

/// Bytes, or a number with kB, MB, GB or TB (powers of 1024, as PostgreSQL has them).
fn size(text: &str, into: &mut u64) -> std::result::Result<(), String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err("a size as 512MB or 4GB".to_owned()),
    };
    let number: Option<u64> = digits.parse().ok();
    *into = number
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|bytes| *bytes > 0)
        .ok_or("a size as 512MB or 4GB".to_owned())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_kernel::api::Prefault;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn flags_beat_variables_beat_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = "instances = 1\nbuffer_pool = \"64MB\"\nlisten = \"none\"\npin = false\n\
            checkpoint_interval = \"5min\"\ncheckpoint_wal = 0\nadmission_max = 7\n";
        std::fs::write(folder.path().join(FILE_NAME), file).unwrap();
        let variables = |name: &str| match name {
            "ATOLL_INSTANCES" => Some("2".to_owned()),
            "ATOLL_CLOCK" => Some("counter".to_owned()),
            "ATOLL_PREFAULT" => Some("on".to_owned()),
            "ATOLL_ADMISSION_MAX" => Some("10000".to_owned()),
            _ => None,
        };
        let flags = [
            ("instances", "3".to_owned()),
            ("listen", "localhost, [::1]:7".to_owned()),
            ("exchange_sessions", "off".to_owned()),
        ];
        let config = Config::gather(folder.path(), variables, &flags).unwrap();
        assert_eq!(config.options.instances, Instances::Count(3));
        assert_eq!(config.options.clock, ClockChoice::Counter);
        assert_eq!(config.options.buffer_pool_bytes, 64 << 20);
        assert_eq!(config.options.pin, Pin::No);
        assert_eq!(config.options.prefault, Prefault::AtStart);
        assert_eq!(config.options.checkpoint_interval_ms, 300_000);
        assert_eq!(config.options.checkpoint_wal_bytes, 0);
        assert_eq!(config.options.runtime.admission_max, 10_000);
        assert_eq!(config.sessions.exchanges, Exchanges::Off);
        assert_eq!(config.listen, ["localhost:5432", "[::1]:7"]);
    }

    #[test]
    fn times_and_sizes_of_checkpoints_have_units_and_limits() {
        let times = [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("100ms", Some(100)),
            ("60s", Some(60_000)),
            ("2 min", Some(120_000)),
            ("7d", Some(604_800_000)),
            ("99ms", None),
            ("8d", None),
            ("60", None),
            ("60 seconds", None),
            ("-1s", None),
            ("", None),
            ("s", None),
            ("18446744073709551615d", None),
        ];
        for (text, expected) in times {
            assert_eq!(interval_ms(text).ok(), expected, "{text:?}");
        }
        let sizes = [
            ("0", Some(0)),
            ("1MB", Some(1 << 20)),
            ("1GB", Some(1 << 30)),
            ("1024TB", Some(1 << 50)),
            ("1025TB", None),
            ("1023kB", None),
            ("12", None),
            ("-1", None),
            ("much", None),
        ];
        for (text, expected) in sizes {
            assert_eq!(wal_bytes(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn wrong_settings_are_named_with_their_origin() {
        let folder = tempfile::tempdir().unwrap();
        let told = |flags: &[(&str, String)]| {
            Config::gather(folder.path(), nothing, flags).unwrap_err().to_string()
        };
        let instances = told(&[("instances", "0".to_owned())]);
        assert_eq!(instances, "--instances: instances = \"0\": auto, or a number from 1 to 512");
        for wrong in ["0", "10001", "-1", "", "auto", "12.5", "18446744073709551616"] {
            let expected =
                format!("--admission-max: admission_max = \"{wrong}\": a number from 1 to 10000");
            assert_eq!(told(&[("admission_max", wrong.to_owned())]), expected);
        }
        let exchange = told(&[("exchange_sessions", "1".to_owned())]);
        assert_eq!(exchange, "--exchange-sessions: exchange_sessions = \"1\": on, off or always");
        assert!(told(&[("buffer_pool", "lots".to_owned())]).starts_with("--buffer-pool: "));
        assert!(told(&[("buffer_pool", "99999999999TB".to_owned())]).contains("size"));
        assert_eq!(
            told(&[("checkpoint_interval", "60".to_owned())]),
            "--checkpoint-interval: checkpoint_interval = \"60\": a time from 100ms to 7d, as 60s or \
             5min, or 0 for never"
        );
        assert!(told(&[("checkpoint_wal", "1kB".to_owned())]).contains("from 1MB to 1024TB"));
        assert!(told(&[("log_segment", "1MB".to_owned())]).contains("at least 4MB"));
        let relative = told(&[("archive_directory", "logs".to_owned())]);
        assert!(relative.contains("--archive-directory: ") && relative.contains("absolute"));
        std::fs::write(folder.path().join(FILE_NAME), "shared_buffers = 1\n").unwrap();
        assert!(told(&[]).contains("there is no setting \"shared_buffers\""));
        std::fs::write(folder.path().join(FILE_NAME), "listen = [1]\n").unwrap();
        assert!(told(&[]).contains("listen is not a text"));
        std::fs::write(folder.path().join(FILE_NAME), "listen =\n").unwrap();
        assert!(told(&[]).contains(FILE_NAME));
    }
}
