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
//! what was durable at its point, and of the rest what its seed left. Half of the points lie right
//! behind an acknowledgement or a read, where an answer that came too early shows; a quarter are
//! chosen among all events; a quarter lie within checkpoints, or shortly after one, where its log
//! segments are used again: the server makes checkpoints all the time.

mod judge;
mod landmarks;
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
use landmarks::{Landmarks, Stage};
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
    /// Checkpoints that the recorded server began.
    pub checkpoints: u64,
    /// Extents by which page files grew.
    pub growths: u64,
    /// Log segments that were used again.
    pub reused: u64,
    /// Images that recovered from a checkpoint.
    pub from_checkpoint: u64,
    /// Images cut within a checkpoint: after its first page was written, before its manifest was
    /// there to stay.
    pub within: u64,
    /// Those of them whose manifest had its name already.
    pub within_naming: u64,
    /// Images cut shortly after a log segment was used again.
    pub after_reuse: u64,
    /// Pages that the recorded server evicted, and those that it loaded.
    pub evicted: u64,
    /// See there.
    pub loaded: u64,
    /// Leaves that its checkpoints moved from the ends of files.
    pub moved: u64,
    /// How often page files became shorter.
    pub cuts: u64,
    /// Images cut while pages were evicted.
    pub among_evictions: u64,
    /// Images cut while pages were loaded.
    pub among_loads: u64,
    /// Images cut within a checkpoint that moved leaves.
    pub within_compaction: u64,
}

impl Summary {
    fn add(self, part: &Summary) -> Summary {
        Summary {
            passed: self.passed + part.passed,
            failed: self.failed + part.failed,
            verified: self.verified + part.verified,
            shortened: self.shortened + part.shortened,
            from_checkpoint: self.from_checkpoint + part.from_checkpoint,
            within: self.within + part.within,
            within_naming: self.within_naming + part.within_naming,
            after_reuse: self.after_reuse + part.after_reuse,
            among_evictions: self.among_evictions + part.among_evictions,
            among_loads: self.among_loads + part.among_loads,
            within_compaction: self.within_compaction + part.within_compaction,
            ..self
        }
    }

    /// What the images did not show and should have, if anything.
    pub fn gap(&self) -> Option<&'static str> {
        let needed = [
            (self.verified, "no image had an acknowledgement to look for"),
            (self.from_checkpoint, "no image recovered from a checkpoint"),
            (self.within, "no image was cut within a checkpoint"),
            (self.after_reuse, "no image was cut shortly after a log segment was used again"),
            (self.among_evictions, "no image was cut while pages were evicted"),
            (self.among_loads, "no image was cut while pages were loaded"),
            (self.within_compaction, "no image was cut while leaves were moved"),
        ];
        needed.into_iter().find(|(count, _)| *count == 0).map(|(_, gap)| gap)
    }
}

/// What was recorded.
#[derive(Clone, Copy)]
struct Recording<'a> {
    events: &'a [Event],
    notes: &'a Notes,
    landmarks: &'a Landmarks,
}

/// What one image showed.
struct Shown {
    /// Acknowledgements found kept.
    verified: u64,
    /// Whether the cut left durable commits out.
    shortened: bool,
    /// Whether it recovered from a checkpoint.
    from_checkpoint: bool,
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
    let landmarks = Landmarks::find(&events);
    let (checkpoints, growths) = (landmarks.checkpoints(), landmarks.growths());
    let reused = landmarks.reused();
    say(&format!(
        "meanwhile {checkpoints} checkpoints, {growths} extents of page files, {reused} log segments \
         used again"
    ));
    let (traffic, cuts) = (landmarks.traffic(), landmarks.cuts());
    say(&format!(
        "{} pages evicted, {} loaded, {} leaves moved, files became shorter {cuts} times",
        traffic.evicted, traffic.loaded, traffic.moved
    ));
    let recording = Recording { events: &events, notes: &notes, landmarks: &landmarks };
    let found = Summary {
        events: length as u64,
        acknowledged: acknowledged as u64,
        checkpoints: checkpoints as u64,
        growths: growths as u64,
        reused: reused as u64,
        evicted: traffic.evicted,
        loaded: traffic.loaded,
        moved: traffic.moved,
        cuts: cuts as u64,
        ..Summary::default()
    };
    Ok(found.add(&judge_all(setting, recording, say)))
}

fn judge_all(setting: &Setting, recording: Recording<'_>, say: &(dyn Fn(&str) + Sync)) -> Summary {
    let points = points(setting, recording);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = points.len().div_ceil(workers).max(1);
    let parts: Vec<Summary> = std::thread::scope(|scope| {
        let threads: Vec<_> = points
            .chunks(share)
            .map(|points| scope.spawn(move || judge_some(points, recording, say)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Summary { failed: 1, ..Summary::default() }))
            .collect()
    });
    parts.iter().fold(Summary::default(), Summary::add)
}

/// Where to crash, ascending, and the seed of what survives there.
fn points(setting: &Setting, recording: Recording<'_>) -> Vec<(usize, u64)> {
    let Recording { events, notes, landmarks } = recording;
    let is_answer = |note: &Note| matches!(note, Note::Acknowledged(_) | Note::Seen(_));
    let answers: Vec<usize> =
        notes.iter().filter(|(_, note)| is_answer(note)).map(|(at, _)| *at).collect();
    let mut random = Seeded::new(setting.seed ^ 0x5eed);
    let mut points = Vec::new();
    for number in 0..setting.images {
        let mut any_of = |count: usize| random.below(count.max(1) as u64) as usize;
        let anywhere = any_of(events.len()) + 1;
        let point = match (number % 4, answers.as_slice()) {
            (0 | 2, [_, ..]) => answers[any_of(answers.len())] + 1,
            (3, _) => landmarks.draw(&mut random).unwrap_or(anywhere),
            _ => anywhere,
        };
        points.push((point.min(events.len()), 0));
    }
    points.iter_mut().for_each(|(_, seed)| *seed = random.next_u64());
    points.sort_unstable();
    points
}

fn judge_some(
    points: &[(usize, u64)],
    Recording { events, notes, landmarks }: Recording<'_>,
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
        let (stage, swapping) = (landmarks.stage(*point), landmarks.swapping(*point));
        match judge(&replayer, *seed, &promises) {
            Ok(shown) => {
                summary = summary.add(&Summary {
                    passed: 1,
                    verified: shown.verified,
                    shortened: u64::from(shown.shortened),
                    from_checkpoint: u64::from(shown.from_checkpoint),
                    within: u64::from(stage != Stage::Between),
                    within_naming: u64::from(stage == Stage::Naming),
                    after_reuse: u64::from(landmarks.reused_just_before(*point)),
                    among_evictions: u64::from(swapping.evicts),
                    among_loads: u64::from(swapping.loads),
                    within_compaction: u64::from(landmarks.is_compacting(*point)),
                    ..Summary::default()
                });
            }
            Err(complaint) => {
                summary.failed += 1;
                say(&format!("image after {point} events ({stage:?}), seed {seed}: {complaint}"));
            }
        }
        if (done + 1) % 100 == 0 {
            say(&format!("{} of {} images on one core", done + 1, points.len()));
        }
    }
    summary
}

/// Recovers one image and judges it.
fn judge(replayer: &Replayer, seed: u64, promises: &Promises) -> Result<Shown, Complaint> {
    let disk = replayer.image(seed);
    // Half of them recover into a pool that the data does not fit.
    let buffer_pool_bytes = if seed & 4 == 0 { 64 << 20 } else { 6 << 20 };
    let options = Options { buffer_pool_bytes, ..options(1 + (seed % 3) as u16) };
    let mut life = Life::open(&disk, &SimTime::new(1_000_000), options, seed)
        .map_err(|error| format!("it does not open: {error:?}"))?;
    let report = life.database.recovery();
    let judged = judge::judge(&mut life, &disk, promises);
    match life.finish_turns() {
        Ok(()) => life.end(),
        Err(_) => life.abandon(),
    }
    let (shortened, from_checkpoint) = (report.commits_cut > 0, report.pages > 0);
    judged.map(|verified| Shown { verified, shortened, from_checkpoint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_a_short_recording_recover() {
        let directory = tempfile::tempdir().expect("a place for a server");
        let setting =
            Setting { images: 24, time: Duration::from_millis(500), instances: 2, seed: 1 };
        let say = |line: &str| println!("{line}");
        let summary = run(&setting, directory.path(), &say).expect("it can be recorded");
        assert_eq!((summary.passed, summary.failed), (24, 0));
        assert!(summary.acknowledged > 0 && summary.verified > 0, "{summary:?}");
        assert!(summary.from_checkpoint > 0 && summary.within > 0, "{summary:?}");
    }
}
