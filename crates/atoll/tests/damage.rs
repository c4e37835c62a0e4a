//! Damage to what a checkpoint consists of: page files, the manifest, the log that it needs. It is
//! named and refused, by start-up and by `atoll check`, and not a byte changes; what nothing refers
//! to may have any bytes. Of pages the check names all that are damaged, each once and with its table or index.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use atoll_kernel::api::{Database as Kernel, Findings};
use atoll_kernel::base::{PAGE_BYTES, Place, TreeId};
use atoll_kernel::catalog::CATALOG_TREE;
use atoll_kernel::page::PageKind;
use common::refusal::{check, checksum, content, refused};
use common::victim::{Rows, Victim, make_checkpoint, open_rows, options, page_file, rows_of};
use fastrand::Rng;

/// `atoll check`'s work, without a process.
fn inspect(victim: &Victim) -> Result<Findings, String> {
    let found = Kernel::inspect(&victim.data(), options(), &mut |_| ());
    found.map_err(|error| error.to_string())
}

/// What it tells of damage, a line each.
fn told(found: Result<Findings, String>) -> Vec<String> {
    found.map_or_else(|error| vec![error], |findings| findings.problems)
}

/// A page, as it is to be named.
fn name_of(place: Place) -> String {
    format!("\"{}\", page {}: ", page_file(place), place.number())
}

fn random() -> Rng {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("ATOLL_SEED={seed}");
    Rng::with_seed(seed)
}

#[test]
fn a_flipped_bit_in_any_page_is_named_and_where_nothing_refers_to_it_does_not_matter() {
    let (victim, mut random) = (Victim::new(), random());
    let (trees, longs) = (victim.pages_of_trees(), victim.pages_of_long_values());
    assert!(trees.len() > 60 && longs.len() > 9, "{} {}", trees.len(), longs.len());
    let (mut refused_longs, mut free) = (0, 0);
    for (home, name) in victim.page_files() {
        let good = victim.bytes(&name);
        for number in 0..good.len() / PAGE_BYTES {
            let mut bytes = good.to_vec();
            let at = number * PAGE_BYTES + random.usize(..PAGE_BYTES);
            bytes[at] ^= 1 << random.u8(..8);
            std::fs::write(victim.path(&name), &bytes).unwrap();
            let place = Place::new(home, number as u64);
            let told = told(inspect(&victim));
            if number == 0 {
                let said = format!("\"{name}\"");
                assert!(told.iter().any(|line| line.contains(&said)), "byte {at}: {told:?}");
            } else if trees.contains(&place) {
                let is_named = told.len() == 1 && told[0].contains(&name_of(place));
                assert!(is_named, "byte {at} of {place}: {told:?}");
            } else if longs.contains(&place) {
                refused_longs +=
                    usize::from(told.iter().any(|line| line.contains(&name_of(place))));
            } else {
                free += 1;
                assert!(told.is_empty(), "byte {at}: {told:?}");
            }
        }
        victim.mend();
    }
    println!("{} pages of trees, {refused_longs} of long values, {free} others", trees.len());
    // Nine papers are there, of 30 kB and more each.
    assert!(refused_longs >= 18, "{refused_longs} of {}", longs.len());
    assert!(free > 0);
}

/// How a tree of the victim is to be called.
fn labels(victim: &Victim) -> BTreeMap<TreeId, String> {
    let copy = victim.copy();
    let database = atoll::Database::open(copy.path(), options()).unwrap();
    let catalog = database.kernel().catalog();
    let mut labels = BTreeMap::from([(CATALOG_TREE, "the catalog".to_owned())]);
    for table in catalog.tables() {
        let name = &table.def.name;
        labels.insert(table.def.tree, format!("table \"{name}\""));
        for index in &table.indexes {
            let label = format!("index \"{}\" of \"{name}\"", index.def.name);
            labels.insert(index.def.tree, label);
        }
    }
    database.close().unwrap();
    labels
}

/// A page of the victim as it should be: its kind and its tree.
fn kind_of(victim: &Victim, place: Place) -> (PageKind, TreeId) {
    let page = &victim.bytes(&page_file(place))[place.number() as usize * PAGE_BYTES..];
    let tree = u32::from_le_bytes(page[16..20].try_into().unwrap());
    (PageKind::from_byte(page[6]).unwrap(), TreeId(tree))
}

/// Flips a bit of each of these pages and has them checked.
fn damaged(victim: &Victim, places: &BTreeSet<Place>, random: &mut Rng) -> Findings {
    for (_, name) in victim.page_files() {
        let mut bytes = victim.bytes(&name).to_vec();
        for place in places.iter().filter(|place| page_file(**place) == name) {
            let at = place.number() as usize * PAGE_BYTES + random.usize(..PAGE_BYTES);
            bytes[at] ^= 1 << random.u8(..8);
        }
        std::fs::write(victim.path(&name), bytes).unwrap();
    }
    let before = content(&victim.data());
    let findings = inspect(victim).unwrap();
    assert!(content(&victim.data()) == before, "the check changed something");
    victim.mend();
    findings
}

/// Each page has one line, which begins with its tree.
fn assert_named(findings: &Findings, places: &BTreeSet<Place>, label: impl Fn(Place) -> String) {
    let problems = &findings.problems;
    for place in places {
        let (label, name) = (label(*place), name_of(*place));
        let is_it =
            |line: &&String| line.starts_with(&format!("{label}: ")) && line.contains(&name);
        assert_eq!(problems.iter().filter(is_it).count(), 1, "{label}, {name}: {problems:#?}");
    }
    assert_eq!(problems.len(), places.len(), "{problems:#?}");
}

#[test]
fn pages_that_are_damaged_at_once_are_all_named_with_their_tables() {
    let (victim, mut random) = (Victim::new(), random());
    let (labels, trees) = (labels(&victim), victim.pages_of_trees());
    let label = |place: Place| labels[&kind_of(&victim, place).1].clone();
    let leaves_of = |wanted: &dyn Fn(&str) -> bool| -> BTreeSet<Place> {
        let is_wanted = |place: &Place| {
            let (kind, tree) = kind_of(&victim, *place);
            kind != PageKind::Inner && wanted(&labels[&tree])
        };
        trees.iter().copied().filter(is_wanted).collect()
    };
    // Every leaf but the catalog's, of all tables and indexes.
    let all = leaves_of(&|label| label != "the catalog");
    assert!(all.len() > 30, "{}", all.len());
    let findings = damaged(&victim, &all, &mut random);
    assert_named(&findings, &all, label);
    let tables = labels.values().filter(|label| label.starts_with("table")).count() as u64;
    assert_eq!((findings.tables, findings.rows), (tables, 0));
    assert!(!findings.unchecked.is_empty());
    // Some of them: of two tables that recovery needs, and of an index.
    let every = |step: usize, places: &BTreeSet<Place>| -> BTreeSet<Place> {
        places.iter().copied().step_by(step).collect()
    };
    let mut some = every(7, &leaves_of(&|label| label.ends_with("\"people\"")));
    some.extend(every(2, &leaves_of(&|label| label == "table \"papers\"")));
    let findings = damaged(&victim, &some, &mut random);
    assert_named(&findings, &some, label);
    assert!(findings.rows > 1000, "{findings:?}");
    // Recovery can do without these: all rows are there, and the other indexes are compared with them.
    let indexes = leaves_of(&|label| label.starts_with("index \"people"));
    let findings = damaged(&victim, &indexes, &mut random);
    assert_named(&findings, &indexes, label);
    assert_eq!(findings.rows, victim.rows.iter().map(Vec::len).sum::<usize>() as u64);
    let unchecked = &findings.unchecked;
    assert!(unchecked.len() == 2 && unchecked.iter().all(|it| it.starts_with("index \"people")));
    // And nothing of it was more than the pages' fault.
    let findings = damaged(&victim, &BTreeSet::new(), &mut random);
    assert!(findings.problems.is_empty() && findings.unchecked.is_empty(), "{findings:?}");
}

#[test]
fn what_a_damaged_page_hides_is_said() {
    let (victim, mut random) = (Victim::new(), random());
    let labels = labels(&victim);
    let label = |place: Place| labels[&kind_of(&victim, place).1].clone();
    let checkpoint = victim.manifest().checkpoint.unwrap();
    let roots: BTreeSet<Place> = checkpoint.trees.iter().map(|tree| tree.root).collect();
    let is_catalog = |place: &&Place| labels[&kind_of(&victim, **place).1] == "the catalog";
    // All roots but the catalog's.
    let others: BTreeSet<Place> = roots.iter().filter(|it| !is_catalog(it)).copied().collect();
    let findings = damaged(&victim, &others, &mut random);
    assert_named(&findings, &others, label);
    let hides = |line: &String| line.contains("root of the tree was passed over");
    assert!(findings.problems.iter().all(hides), "{:#?}", findings.problems);
    assert_eq!((findings.tables, findings.rows), (0, 0));
    // The catalog's, which is the way to all others.
    let own: BTreeSet<Place> = roots.iter().filter(is_catalog).copied().collect();
    assert_eq!(own.len(), 1);
    let findings = damaged(&victim, &own, &mut random);
    assert_named(&findings, &own, label);
    let left = format!("{} of checkpoint {}'s trees", others.len(), checkpoint.number);
    let unchecked = &findings.unchecked;
    assert!(unchecked.iter().any(|line| line.starts_with(&left)), "{unchecked:?}");
    // All pages of long values: each of the nine papers names one of its own. What a paper had before may be there still.
    let longs = victim.pages_of_long_values();
    let findings = damaged(&victim, &longs, &mut random);
    let is_of_row = |line: &&String| line.starts_with("table \"papers\": row ");
    let problems: Vec<_> = findings.problems.iter().filter(is_of_row).collect();
    let others = findings.problems.iter().filter(|line| !is_of_row(line));
    // One line more says how many pages are behind those of such values.
    assert!(others.clone().count() < 4, "{findings:#?}");
    assert!(others.into_iter().all(|line| line.starts_with("no row needs it, ")), "{findings:#?}");
    let named = longs.iter().filter(|it| problems.iter().any(|line| line.contains(&name_of(**it))));
    assert_eq!((named.count(), problems.len()), (9, 9), "{problems:#?}");
}

#[test]
fn damaged_page_files_are_refused_by_the_program() {
    let (victim, other) = (Victim::new(), Victim::new());
    let last = |victim: &Victim| *victim.pages_of_trees().last().unwrap();
    let place = last(&victim);
    let (name, at) = (page_file(place), place.number() as usize * PAGE_BYTES);
    let (path, good) = (victim.path(&name), victim.bytes(&name));
    let page = format!("page {}", place.number());
    let with = |change: &dyn Fn(&mut Vec<u8>), words: &[&str]| {
        let mut bytes = good.to_vec();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        refused(&victim.data(), words);
        victim.mend();
    };
    with(&|bytes| bytes[at + 5000] ^= 0x10, &[&name, &page, "checksum"]);
    with(&|bytes| bytes[3] ^= 1, &[&name, "header"]);
    with(&|bytes| bytes[9000] ^= 1, &[&name, "header"]);
    // A version of the future.
    let version = |bytes: &mut Vec<u8>| {
        bytes[8] = 9;
        let sum = checksum(&bytes[..32]);
        bytes[32..36].copy_from_slice(&sum.to_le_bytes());
    };
    with(&version, &[&name, "version 9", "reads version"]);
    // Cut short, between pages and within one.
    with(&|bytes| bytes.truncate(at), &[&name, "the file ends before it"]);
    with(&|bytes| bytes.truncate(at + 4096), &[&name, "the file ends before it"]);
    with(&|bytes| bytes.truncate(4096), &[&name]);
    with(&Vec::clear, &[&name]);
    // A page at another's place: what a write that went astray leaves.
    let first = *victim.pages_of_trees().first().unwrap();
    if page_file(first) == name {
        let from = first.number() as usize * PAGE_BYTES;
        with(&|bytes| bytes.copy_within(from..from + PAGE_BYTES, at), &[&name, &page, "it says"]);
    }
    // Another database's, and another home's.
    let foreign = other.bytes(&name).to_vec();
    with(&|bytes| bytes.clone_from(&foreign), &[&name, "another database's"]);
    let files = victim.page_files();
    let neighbour = files.iter().find(|(home, _)| *home != place.home()).unwrap();
    let neighbour = victim.bytes(&neighbour.1).to_vec();
    with(&|bytes| bytes.clone_from(&neighbour), &[&name, "another database's"]);
    // Missing.
    std::fs::remove_file(&path).unwrap();
    refused(&victim.data(), &[&name, "is missing"]);
    victim.mend();
    std::fs::remove_dir_all(victim.path("pages")).unwrap();
    refused(&victim.data(), &["pages/", "is missing"]);
    std::fs::create_dir(victim.path("pages")).unwrap();
    victim.mend();
    // And nothing of it was more than the file's fault.
    let output = check(&victim.data()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(open_rows(&victim.data()).unwrap(), victim.rows);
}

#[test]
fn a_checkpoint_s_manifest_that_is_damaged_or_missing_is_refused() {
    let victim = Victim::new();
    let name = victim.manifest_name();
    let (path, good) = (victim.path(&name), victim.bytes(&name));
    for at in 0..good.len() {
        let mut bytes = good.to_vec();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, bytes).unwrap();
        let told = inspect(&victim).expect_err("a byte of the manifest");
        assert!(told.contains(&name), "byte {at}: {told}");
    }
    victim.mend();
    let mut bytes = good.to_vec();
    bytes[good.len() / 2] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    refused(&victim.data(), &[&name, "checksum"]);
    for length in [0, 3, good.len() / 2, good.len() - 1] {
        std::fs::write(&path, &good[..length]).unwrap();
        refused(&victim.data(), &[&name]);
    }
    std::fs::write(&path, [good, &[0; 8]].concat()).unwrap();
    refused(&victim.data(), &[&name]);
    // Of the future.
    let mut bytes = good.to_vec();
    let end = bytes.len() - 4;
    bytes[8..12].copy_from_slice(&77u32.to_le_bytes());
    let sum = checksum(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    refused(&victim.data(), &[&name, "format version 77", "reads version"]);
    std::fs::remove_file(&path).unwrap();
    refused(&victim.data(), &["no manifest"]);
    victim.mend();
    assert_eq!(open_rows(&victim.data()).unwrap(), victim.rows);
}

#[test]
fn a_log_segment_that_the_checkpoint_needs_is_missed() {
    let victim = Victim::new();
    for home in 0..2 {
        let folder = format!("log/{home:04}/");
        let in_use = |name: &String| victim.bytes(name)[4096..].iter().any(|byte| *byte != 0);
        let of_home = victim.names(".seg").into_iter().filter(|name| name.starts_with(&folder));
        let segments: Vec<_> = of_home.filter(in_use).collect();
        let mut missed = 0;
        // The last one may hold only what a crash could have torn.
        for name in &segments[..segments.len() - 1] {
            std::fs::remove_file(victim.path(name)).unwrap();
            let before = content(&victim.data());
            match inspect(&victim) {
                Err(told) => {
                    missed += 1;
                    assert!(told.contains(&folder) || told.contains("log of home"), "{told}");
                    open_rows(&victim.data()).unwrap_err();
                    assert!(content(&victim.data()) == before, "{name}");
                }
                // What the checkpoint has made superfluous.
                Ok(_) => assert!(open_rows(victim.copy().path()).unwrap() == victim.rows, "{name}"),
            }
            victim.mend();
        }
        println!("home {home}: {missed} of {} segments missed", segments.len());
        assert!(missed > 0);
    }
}

#[test]
fn what_an_unfinished_page_file_left_is_harmless() {
    let victim = Victim::new();
    for (_, name) in victim.page_files() {
        std::fs::write(victim.path(&format!("{name}.new")), vec![0xa5; 3 * 4096]).unwrap();
    }
    let output = check(&victim.data()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let database = atoll::Database::open(&victim.data(), options()).unwrap();
    assert_eq!(rows_of(&database), victim.rows);
    database.query("insert into tail values (-1, 'after')").unwrap();
    make_checkpoint(&database);
    let rows = rows_of(&database);
    database.close().unwrap();
    drop(database);
    assert_eq!(open_rows(&victim.data()).unwrap(), rows);
    // In a database that has no page files yet, too.
    let folder = tempfile::tempdir().unwrap();
    let database = atoll::Database::open(folder.path(), options()).unwrap();
    database.query("create table t (x int); insert into t values (7)").unwrap();
    std::fs::create_dir_all(folder.path().join("pages")).unwrap();
    for home in 0..2 {
        let name = folder.path().join(format!("pages/{home:04}.pages.new"));
        std::fs::write(name, vec![0xa5; 70_000]).unwrap();
    }
    make_checkpoint(&database);
    database.close().unwrap();
    drop(database);
    let database = atoll::Database::open(folder.path(), options()).unwrap();
    assert!(database.kernel().recovery().pages > 0);
    assert_eq!(database.query("select x from t").unwrap(), [[Some("7".to_owned())]]);
    database.close().unwrap();
}

/// What came of a flip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Came {
    /// It was refused, or the check told of it.
    Found,
    /// The database holds what it held.
    Irrelevant,
    /// The newest commits are gone, as if a crash had torn them.
    TornTail,
}

#[test]
fn flips_anywhere_are_found_or_do_not_matter() {
    let flips = std::env::var("ATOLL_DAMAGE_FLIPS").ok().and_then(|text| text.parse().ok());
    let (victim, mut random) = (Victim::new(), random());
    let mut came: BTreeMap<(&str, Came), u64> = BTreeMap::new();
    for _ in 0..flips.unwrap_or(200) {
        let (kind, path, at) = place(&victim, &mut random);
        let mut bytes = victim.files[&path].clone();
        bytes[at] ^= 1 << random.u8(..8);
        std::fs::write(&path, &bytes).unwrap();
        let what = outcome(&victim, &mut random).unwrap_or_else(|problem| {
            panic!("byte {at} of {}: {problem}", path.display());
        });
        *came.entry((kind, what)).or_default() += 1;
        std::fs::write(&path, &victim.files[&path]).unwrap();
    }
    println!("{came:#?}");
    let count = |kind| came.get(&kind).copied().unwrap_or(0);
    assert_eq!(count(("manifest", Came::Irrelevant)) + count(("page header", Came::Irrelevant)), 0);
    assert!(count(("page", Came::Found)) > 0 && count(("log", Came::Found)) > 0);
    // Only a log has an end that a crash may tear.
    assert!(came.keys().all(|(kind, what)| *what != Came::TornTail || kind.contains("log")));
}

/// Where to flip a bit: mostly where bytes are in use.
fn place(victim: &Victim, random: &mut Rng) -> (&'static str, PathBuf, usize) {
    let manifest = victim.manifest_name();
    let (kind, end) = match random.u8(..8) {
        0 => ("manifest", manifest.as_str()),
        1 => ("page header", ".pages"),
        2..=4 => ("page", ".pages"),
        5 => ("log header", ".seg"),
        _ => ("log", ".seg"),
    };
    let names = victim.names(end);
    let name = &names[random.usize(..names.len())];
    let bytes = victim.bytes(name);
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    let range = match kind {
        "manifest" => 0..bytes.len(),
        "page header" => 0..PAGE_BYTES,
        "log header" => 0..4096,
        "page" => PAGE_BYTES..used.max(PAGE_BYTES + 1),
        _ => 4096..used.max(4097),
    };
    (kind, victim.path(name), random.usize(range))
}

/// Looks at the damaged directory as `atoll check` does, then as a start does.
fn outcome(victim: &Victim, random: &mut Rng) -> Result<Came, String> {
    let before = content(&victim.data());
    let found = inspect(victim);
    if content(&victim.data()) != before {
        return Err("the check changed something".to_owned());
    }
    match found {
        Ok(Findings { problems, .. }) if problems.is_empty() => {
            let copy = victim.copy();
            let rows = open_rows(copy.path())?;
            if rows == victim.rows {
                return Ok(Came::Irrelevant);
            }
            judge_tail(&victim.rows, &rows).map(|()| Came::TornTail)
        }
        Ok(_) | Err(_) => {
            // A start refuses it, or whoever reads the damaged leaf is told; nobody gets other rows.
            if random.u8(..4) == 0 {
                let copy = victim.copy();
                let before = content(copy.path());
                match atoll::Database::open(copy.path(), options()) {
                    Err(_) if content(copy.path()) != before => {
                        return Err("a refused start changed something".to_owned());
                    }
                    Err(_) => {}
                    Ok(database) => {
                        database.close().map_err(|error| error.to_string())?;
                        if open_rows(copy.path()).is_ok_and(|rows| rows != victim.rows) {
                            return Err("it is served with other rows".to_owned());
                        }
                    }
                }
            }
            Ok(Came::Found)
        }
    }
}

/// The last commits may be gone, of each log the last one, and nothing else.
fn judge_tail(good: &Rows, rows: &Rows) -> Result<(), String> {
    let (all, found) = (good.len(), rows.len());
    if all != found || good[..all - 1] != rows[..all - 1] {
        return Err("it is served with other rows".to_owned());
    }
    let missing: Vec<_> = good[all - 1]
        .iter()
        .filter(|row| !rows[all - 1].contains(row))
        .map(|row| &row[0])
        .collect();
    let newest = &good[all - 1][good[all - 1].len() - 4..];
    let is_newest = missing.iter().all(|id| newest.iter().any(|row| row[0] == **id));
    if is_newest && missing.len() <= 4 && good[all - 1].len() == rows[all - 1].len() + missing.len()
    {
        return Ok(());
    }
    Err(format!("it is served without {missing:?}"))
}
