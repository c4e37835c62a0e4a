//! A whole native run: open a database, load, make a checkpoint of that, warm up, measure, check.
//!
//! Invariants: refused before it begins if it may not fit. Marks of the warm-up count for the
//! check, too. Errors are one line.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use atoll_kernel::api::{Database, Error, MemoryWatch, Options, PUBLIC_NAMESPACE, Pin, Target};

use super::client::Told;
use super::drive::{Course, drive};
use super::looks::{Looks, pages_in};
use super::traced::Tracing;
use super::{Native, load};
use crate::cpu;
use crate::ledger::Counting;
use crate::report::{Driven, Report, Side};
use crate::setting::{Place, Setting};
use crate::space::{self, Advice};
use crate::ticker::Ticker;
use crate::workload::Loaded;

/// Opens a database of its own, loads, runs, checks. `say` gets progress for people.
pub fn run<W: Native>(
    workload: &W,
    setting: &Setting,
    place: &Place,
    say: &mut dyn FnMut(&str),
) -> Result<Report, String> {
    workload.validate()?;
    setting.validate_timed()?;
    let instances = place.instances.count();
    let need = workload.need(setting, instances);
    let pool = place.buffer_pool_bytes.unwrap_or(need.pool_bytes);
    space::refuse(&need, pool, place, &Advice::WORKLOADS)?;
    let options = Options {
        instances: place.instances,
        buffer_pool_bytes: pool,
        prefault: place.prefault,
        checkpoint_interval_ms: place.checkpoint_interval_ms,
        checkpoint_wal_bytes: place.checkpoint_wal_bytes,
        pin: Pin::Auto,
        lock_note: format!("atoll bench {}", W::NAME),
        ..Options::default()
    };
    let database = match &place.data {
        Some(directory) => Database::open(directory, options),
        None => Database::open_in_memory(options),
    };
    let database = database.map_err(text)?;
    let (loaded, before) = prepare(&database, workload, setting.seed, say)?;
    if loaded.rows > 0 {
        checkpoint_loaded(&database, place, say)?;
    }
    let report = measure(&database, workload, setting, (loaded, &before), say)?;
    database.close().map_err(text)?;
    Ok(report)
}

/// Loads the tables unless they are there. Those that are there must have been loaded whole: a
/// load that was interrupted is an error that says what is missing. Answers what they hold.
pub fn prepare<W: Native>(
    database: &Database,
    workload: &W,
    seed: u64,
    say: &mut dyn FnMut(&str),
) -> Result<(Loaded, W::Before), String> {
    workload.validate()?;
    let catalog = database.catalog();
    let mut loaded = Loaded::default();
    if W::TABLES.iter().any(|name| catalog.table(PUBLIC_NAMESPACE, name).is_some()) {
        say("the tables are there: checking them");
    } else {
        say(&format!("loading about {} rows", workload.rows()));
        loaded = load::load(database, workload, seed, say)?;
    }
    let before = workload.look(database, &loaded);
    let before = before.map_err(|what| format!("the tables are there but not whole: {what}"))?;
    Ok((loaded, before))
}

/// Makes a checkpoint of what was loaded, so that none is made for the load's sake while the workload is measured:
/// a large load would begin one right behind itself, and a small one would not. Nothing where none are made at all.
pub fn checkpoint_loaded(
    database: &Database,
    place: &Place,
    say: &mut dyn FnMut(&str),
) -> Result<(), String> {
    if !place.makes_checkpoints() {
        return Ok(());
    }
    say("making a checkpoint of what was loaded");
    let began = Instant::now();
    let made = database.run(Target::Any, Database::checkpoint);
    made.and_then(|made| made).map_err(text)?;
    say(&format!("  made in {:.2} s", began.elapsed().as_secs_f64()));
    Ok(())
}

/// Warms up, measures, checks.
fn measure<W: Native>(
    database: &Database,
    workload: &W,
    setting: &Setting,
    (loaded, before): (Loaded, &W::Before),
    say: &mut dyn FnMut(&str),
) -> Result<Report, String> {
    let tables = W::tables(&database.catalog())?;
    let (mut tally, mut looks) = (W::Tally::default(), Looks::default());
    let tracing = Tracing::begin();
    if setting.warmup_seconds > 0 {
        say(&format!("warming up for {} s", setting.warmup_seconds));
        let (seconds, mut unsaid) = (setting.warmup_seconds, Looks::default());
        run_for(database, (workload, &tables), (setting, seconds), (&mut tally, &mut unsaid), say)?;
    }
    say(&format!("running for {} s", setting.seconds));
    let metrics = database.metrics().map_err(text)?;
    let counting = Counting::begin();
    tracing.mark();
    let (cpu_before, written_before) = (cpu::own(), cpu::own_written());
    let timed = (setting, setting.seconds);
    let driven = run_for(database, (workload, &tables), timed, (&mut tally, &mut looks), say)?;
    let cpu = cpu::own().saturating_sub(cpu_before);
    let written = cpu::own_written().zip(written_before).map(|(now, before)| now - before);
    let ledger = counting.end(W::KINDS)?;
    let metrics = Box::new((metrics, database.metrics().map_err(text)?));
    let lru = tracing.end(&metrics.1);
    say("checking");
    let began = Instant::now();
    let checked = workload.verify(database, before, &tally)?;
    let instances = database.instances();
    let looks = Box::new(looks);
    let side = Side::Native { instances, cpu, written, metrics, ledger, looks, lru };
    Ok(Report::of(workload, setting, driven, side, loaded, (checked, began.elapsed())))
}

fn run_for<W: Native>(
    database: &Database,
    workload: (&W, &W::Tables),
    (setting, seconds): (&Setting, u64),
    (tally, looks): (&mut W::Tally, &mut Looks),
    say: &mut dyn FnMut(&str),
) -> Result<Driven, String> {
    let course = Course {
        duration: Duration::from_secs(seconds),
        stop: Arc::new(OnceLock::new()),
        acknowledge: W::ACKNOWLEDGE,
    };
    // Asked for while no client runs: when more run than are admitted, nobody else would be.
    let memory = database.run(Target::Any, |context| MemoryWatch::new(context.instance()));
    let (memory, mut ticker) = (memory.map_err(text)?, Ticker::new());
    drive(database, workload, setting, &course, &mut |told| {
        match told {
            Some(Told::Progress(counts)) => {
                ticker.add(&counts);
                looks.add(&counts);
            }
            Some(Told::Committed(marks)) => marks.into_iter().for_each(|it| W::add(tally, it)),
            None => looks.look(database, &memory),
        }
        if let Some(line) = ticker.line() {
            match looks.space.look(database, pages_in(&memory)) {
                Some(space) => say(&format!("{line}, {space}")),
                None => say(&line),
            }
        }
    })
}

fn text(error: Error) -> String {
    error.to_string()
}
