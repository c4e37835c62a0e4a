//! Transactions larger than recovery reads at once: replayed in pieces, they leave what a replay in
//! one piece leaves.

use std::collections::BTreeMap;
use std::path::Path;

use super::long::{
    TEXTS, Texts, all, check, delete, insert, make_table, options, steps, transact, update,
};
use super::{Database, Error, Oid, Options};

fn texts(random: &mut fastrand::Rng, len: usize) -> Texts {
    let mut texts: Texts = vec![None; TEXTS];
    texts[0] = Some(vec![random.u8(..); 8]);
    texts[random.usize(1..TEXTS)] = Some((0..len).map(|_| random.u8(..)).collect());
    texts
}

/// Opens the directory, finds what there should be and checks it offline too.
fn replay(
    path: &Path,
    options: Options,
    (table, model, pages): (Oid, &BTreeMap<i64, Texts>, u64),
    emptied: Oid,
) {
    let round_bytes = options.recovery_round_bytes;
    let database = Database::open(path, options.clone()).expect("it recovers");
    assert!(all(&database, table) == *model, "in rounds of {round_bytes}");
    // Two logs, and the largest row with a block of its chunk.
    let (report, held_max) = (database.recovery(), 2 * round_bytes + (220 << 10));
    assert!(report.bytes > 4 << 20, "{report:?}");
    assert!(report.held_bytes_max <= held_max, "{report:?}");
    assert_eq!(super::all(&database, emptied), [(2, 1)], "in rounds of {round_bytes}");
    assert_eq!(check(&database), pages, "in rounds of {round_bytes}");
    database.close().expect("it closes in peace");
    drop(database);
    let findings = Database::inspect(path, options, &mut |_| ()).expect("it can be checked");
    assert_eq!(findings.problems, Vec::<String>::new(), "in rounds of {round_bytes}");
}

/// A commit of some 4 MB between small ones of other instances, with everything that carries over
/// from piece to piece: rows changed and deleted later in it, long values larger than a piece,
/// redo that a failed command left in spilled chunks, a table that it makes, one that it empties.
#[test]
fn large_commits_are_replayed_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let small = |round_bytes| Options {
        log_buffer_bytes: 16 << 10,
        log_segment_bytes: 1 << 20,
        recovery_round_bytes: round_bytes,
        ..options()
    };
    let database = Database::open(directory.path(), small(32 << 20)).unwrap();
    let table = make_table(&database);
    let emptied = super::make_accounts(&database);
    let mut random = fastrand::Rng::with_seed(3);
    let mut model: BTreeMap<i64, Texts> = BTreeMap::new();
    let commit_small = |model: &mut BTreeMap<i64, Texts>, id: i64| {
        let texts = texts(&mut fastrand::Rng::with_seed(id as u64), 100);
        transact(&database, |it| insert(it, table, id, &texts).map(drop)).unwrap();
        model.insert(id, texts);
    };
    (10_000..10_010).for_each(|id| commit_small(&mut model, id));
    for large in 0..2 {
        let first = large * 1000;
        let rows: Vec<Texts> = (0..600)
            .map(|id| texts(&mut random, if id % 50 == 7 { 200_000 } else { 1 << (id % 9) }))
            .collect();
        let changed = [(3, Some(vec![9; 70_000])), (4, None)];
        steps(&database, |it, step| {
            let step = step as usize;
            let id = first + step as i64;
            match step {
                _ if step < rows.len() => Some(insert(it, table, id, &rows[step]).map(drop)),
                600 => Some(update(it, table, first + 5, &changed).map(drop)),
                601 => Some(delete(it, table, first + 6).map(drop)),
                602 => {
                    // The key is taken: its long value stays behind in spilled chunks.
                    let twice = insert(it, table, first + 1, &rows[7]);
                    assert!(matches!(twice, Err(Error::UniqueViolation { .. })), "{twice:?}");
                    Some(Ok(()))
                }
                603 => Some(update(it, table, first + 7, &changed).map(drop)),
                604 => {
                    let mut emptying = || {
                        super::insert(it, emptied, 1, large)?;
                        it.truncate(&[emptied])?;
                        super::insert(it, emptied, 2, large).map(drop)
                    };
                    Some(emptying())
                }
                _ => None,
            }
        })
        .unwrap();
        for (id, texts) in (first..).zip(rows) {
            model.insert(id, texts);
        }
        for id in [first + 5, first + 7] {
            let texts = model.get_mut(&id).unwrap();
            texts[3] = Some(vec![9; 70_000]);
            texts[4] = None;
        }
        model.remove(&(first + 6));
        (10_010..10_020).for_each(|id| commit_small(&mut model, large * 100 + id));
    }
    assert!(all(&database, table) == model);
    let pages = check(&database);
    database.close().unwrap();
    drop(database);
    for round_bytes in [1 << 10, 100_000, 32 << 20] {
        replay(directory.path(), small(round_bytes), (table, &model, pages), emptied);
    }
}
