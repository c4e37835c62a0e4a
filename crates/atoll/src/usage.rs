//! What is told to who typed a command line that cannot be: one line.
//!
//! Invariants: help and the version are printed as they are asked for; anything else is one line on standard
//! error, with what is wrong, what was perhaps meant and where the help is, and ends with status 2.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

/// The command line as a `T`, or how the program ends instead.
pub fn parse<T: Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Who closes the pipe does not want to read on.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
        _ => {
            let words = std::env::args_os().skip(1).map_while(|word| word.into_string().ok());
            eprintln!("atoll: {}", line(&error, &named(&T::command(), words)));
            ExitCode::from(2)
        }
    })
}

/// The error in a line: its first paragraph, its tips, and the command whose help tells more.
fn line(error: &clap::Error, command: &str) -> String {
    let text = error.render().to_string();
    let joined = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = text.split("\n\n").map(joined);
    let what = paragraphs.next().unwrap_or_default();
    let mut line = what.strip_prefix("error: ").unwrap_or(&what).to_owned();
    for tip in paragraphs.filter(|it| it.starts_with("tip: ")) {
        line.push_str("; ");
        line.push_str(&tip);
    }
    line.push_str(&format!(" (see {command} --help)"));
    line
}

/// The command that these words name, as far as they name one.
fn named(mut command: &clap::Command, words: impl Iterator<Item = String>) -> String {
    let mut name = command.get_name().to_owned();
    for word in words {
        let Some(found) = command.find_subcommand(&word) else { break };
        name.push(' ');
        name.push_str(&word);
        command = found;
    }
    name
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clap::{CommandFactory, Subcommand};

    use super::*;

    #[derive(Parser, Debug)]
    #[command(name = "atoll")]
    struct Program {
        #[command(subcommand)]
        command: Command,
    }

    #[derive(Subcommand, Debug)]
    enum Command {
        /// Runs.
        Run {
            #[arg(long, value_parser = clap::value_parser!(u64).range(1..=8))]
            clients: u64,
            #[arg(long, value_parser = ["home", "none"])]
            affinity: Option<String>,
        },
    }

    #[test]
    fn whatever_is_wrong_is_said_in_a_line() {
        for (typed, said) in [
            (
                "run --clients 9",
                "invalid value '9' for '--clients <CLIENTS>': 9 is not in 1..=8 (see atoll run --help)",
            ),
            (
                "run --clients 2 --affinity hom",
                "invalid value 'hom' for '--affinity <AFFINITY>' [possible values: home, none]; \
                 tip: a similar value exists: 'home' (see atoll run --help)",
            ),
            (
                "run",
                "the following required arguments were not provided: --clients <CLIENTS> (see atoll run --help)",
            ),
            (
                "run --client 2",
                "unexpected argument '--client' found; tip: a similar argument exists: '--clients' \
                 (see atoll run --help)",
            ),
            ("walk", "unrecognized subcommand 'walk' (see atoll --help)"),
        ] {
            let words = ["atoll"].into_iter().chain(typed.split(' '));
            let error = Program::try_parse_from(words).unwrap_err();
            let words = typed.split(' ').map(str::to_owned);
            assert_eq!(line(&error, &named(&Program::command(), words)), said, "{typed}");
        }
    }
}
