//! Power loss: the real server is recorded under load, and what a power cut at any point of the
//! recording would have left is recovered and judged.
//!
//! In the recording every write, sync and completion of the server's disk stands in one order with
//! what its clients note. A client notes an acknowledgement when the answer (ReadyForQuery) has
//! arrived at its end of the socket: that is after the server sent it, so no image is asked for
//! more than somebody outside was told; and it is all that a user can hold the server to: whatever
//! lies between (session, link, socket) has had its chance to speak too early. An answer to a read
//! is a promise as well (kernel rule 7.6): the transaction whose row a client has read may not be
//! lost.
//!
//! Invariants: judging takes nothing from the recorded server but the recording. An image holds
//! what was durable at its point, and of the rest what its seed left. Half of the points are
//! chosen among all events; half lie right behind an acknowledgement or a read, where an answer
//! that came too early shows.

mod judge;
mod load;
mod note;
mod wire;

use std::path::Path;
use std::time::Duration;

use atoll_kernel::api::Options;
use atoll_kernel::io::trace::{Event, Replayer};
use atoll_kernel::io::{Seeded, SimTime, Trace};

use crate::checker::Complaint;
use crate::life::{Life, options};
use judge::Promises;
use note::Note;

/// What to record and how often to crash it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Crash images to make.
    pub images: u64,
    /// How long the load runs.
    pub time: Duration,
    /// Instances of the recorded server.
    pub instances: u16,
    /// Decides the clients' choices, the points and what survives there.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Images in which all was well.
    pub passed: u64,
    /// Others.
    pub failed: u64,
    /// Events in the recording.
    pub events: u64,
    /// Commits that clients were told of, over the whole recording.
    pub acknowledged: u64,
    /// Acknowledgements looked for and found, summed over all images.
    pub verified: u64,
    /// Images in which the cut left durable commits out.
    pub shortened: u64,
}

/// Notes with their places in the recording.
type Notes = [(usize, Note)];

/// Records in `directory`, which is empty, then judges images on all cores; `say` gets lines for
/// people.
pub fn run(
    setting: &Setting,
    directory: &Path,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Summary, Complaint> {
    let trace = Trace::in_memory();
    load::record(setting, directory, &trace)
        .map_err(|error| format!("recording failed: {error}"))?;
    let events = Trace::parse(&trace.bytes()).map_err(|error| format!("{error}"))?;
    let mut notes = Vec::new();
    for (at, event) in events.iter().enumerate() {
        if let Event::Note { bytes } = event {
            let note = Note::read(bytes).ok_or_else(|| format!("event {at} is an odd note"))?;
            notes.push((at, note));
        }
    }
    let count = |what: fn(&Note) -> bool| notes.iter().filter(|(_, note)| what(note)).count();
    let acknowledged = count(|note| matches!(note, Note::Acknowledged(_)));
    let seen = count(|note| matches!(note, Note::Seen(_)));
    let length = events.len();
    say(&format!("recorded {length} events, {acknowledged} acknowledged commits, {seen} reads"));
    let summary = judge_all(setting, &events, &notes, say);
    Ok(Summary { events: length as u64, acknowledged: acknowledged as u64, ..summary })
}

fn judge_all(
    setting: &Setting,
    events: &[Event],
    notes: &Notes,
    say: &(dyn Fn(&str) + Sync),
) -> Summary {
    let points = points(setting, events.len(), notes);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = points.len().div_ceil(workers).max(1);
    let parts: Vec<Summary> = std::thread::scope(|scope| {
        let threads: Vec<_> = points
            .chunks(share)
            .map(|points| scope.spawn(move || judge_some(points, events, notes, say)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Summary { failed: 1, ..Summary::default() }))
            .collect()
    });
    parts.into_iter().fold(Summary::default(), |sum, part| Summary {
        passed: sum.passed + part.passed,
        failed: sum.failed + part.failed,
        verified: sum.verified + part.verified,
        shortened: sum.shortened + part.shortened,
        ..sum
    })
}

/// Where to crash, ascending, and the seed of what survives there.
fn points(setting: &Setting, events: usize, notes: &Notes) -> Vec<(usize, u64)> {
    let is_answer = |note: &Note| matches!(note, Note::Acknowledged(_) | Note::Seen(_));
    let answers: Vec<usize> =
        notes.iter().filter(|(_, note)| is_answer(note)).map(|(at, _)| *at).collect();
    let mut random = Seeded::new(setting.seed ^ 0x5eed);
    let mut any_of = |count: usize| random.below(count as u64) as usize;
    let mut points: Vec<(usize, u64)> = (0..setting.images)
        .map(|number| match answers.as_slice() {
            [_, ..] if number % 2 == 0 => answers[any_of(answers.len())],
            _ => any_of(events.max(1)),
        })
        .map(|last| (last + 1, 0))
        .collect();
    points.iter_mut().for_each(|(_, seed)| *seed = random.next_u64());
    points.sort_unstable();
    points
}

fn judge_some(
    points: &[(usize, u64)],
    events: &[Event],
    notes: &Notes,
    say: &(dyn Fn(&str) + Sync),
) -> Summary {
    let mut summary = Summary::default();
    let (mut replayer, mut promises, mut heard) = (Replayer::new(), Promises::default(), 0);
    for (done, (point, seed)) in points.iter().enumerate() {
        replayer.advance(events, *point);
        while let Some((_, note)) = notes.get(heard).filter(|(at, _)| at < point) {
            promises.hear(note);
            heard += 1;
        }
        match judge(&replayer, *seed, &promises) {
            Ok((verified, shortened)) => {
                summary.passed += 1;
                summary.verified += verified;
                summary.shortened += u64::from(shortened);
            }
            Err(complaint) => {
                summary.failed += 1;
                say(&format!("image after {point} events, seed {seed}: {complaint}"));
            }
        }
        if (done + 1) % 100 == 0 {
            say(&format!("{} of {} images on one core", done + 1, points.len()));
        }
    }
    summary
}

/// Recovers one image; answers how many acknowledgements were found kept, and whether the cut
/// left anything out.
fn judge(replayer: &Replayer, seed: u64, promises: &Promises) -> Result<(u64, bool), Complaint> {
    let disk = replayer.image(seed);
    let options = Options { buffer_pool_bytes: 64 << 20, ..options(1 + (seed % 3) as u16) };
    let mut life = Life::open(&disk, &SimTime::new(1_000_000), options, seed)
        .map_err(|error| format!("it does not open: {error:?}"))?;
    let shortened = life.database.recovery().commits_cut > 0;
    let judged = judge::judge(&mut life, &disk, promises);
    match life.finish_turns() {
        Ok(()) => life.end(),
        Err(_) => life.abandon(),
    }
    judged.map(|verified| (verified, shortened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_a_short_recording_recover() {
        let directory = tempfile::tempdir().expect("a place for a server");
        let setting =
            Setting { images: 12, time: Duration::from_millis(300), instances: 2, seed: 1 };
        let summary = run(&setting, directory.path(), &|_| ()).expect("it can be recorded");
        assert_eq!((summary.passed, summary.failed), (12, 0));
        assert!(summary.acknowledged > 0 && summary.verified > 0, "{summary:?}");
    }
}
