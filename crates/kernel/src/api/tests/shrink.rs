//! Tables and indexes shrink as rows go, through the front door: what was deleted gives its pages
//! back, and never under a transaction that still has a row there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::long::{
    TEXTS, Texts, all, check, delete, insert, make_table, options, transact, update,
};
use super::*;
use crate::sync::{AtomicBool, Ordering};

fn texts(id: i64) -> Texts {
    let mut texts: Texts = vec![None; TEXTS];
    texts[0] = Some(format!("key {:06}", id * 7919 % 1_000_003).into_bytes());
    texts[1] = Some(vec![b'q'; 200]);
    texts
}

/// Pages in use when collection has come to rest: it may be behind when others have the processors.
fn used_at_rest(database: &Database) -> usize {
    let used = || database.metrics().expect("it is open").pool.used;
    let (mut last, mut same) = (used(), 0);
    while same < 5 {
        std::thread::sleep(Duration::from_millis(5));
        let now = used();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// A queue and a table that is emptied: pages are given back, of rows and of both indexes.
#[test]
fn a_queue_keeps_its_pages_and_an_emptied_table_gives_them_back() {
    let database = Database::open_in_memory(options()).unwrap();
    let table = make_table(&database);
    let used = |database: &Database| {
        check(database);
        used_at_rest(database)
    };
    let (mut head, mut tail) = (0, 0);
    let mut turn = |database: &Database, inserts: i64, deletes: i64| {
        let (from, to) = (head, tail);
        let done = transact(database, |it| {
            for id in to..to + inserts {
                insert(it, table, id, &texts(id))?;
            }
            (from..from + deletes).try_for_each(|id| delete(it, table, id))
        });
        done.unwrap();
        (head, tail) = (from + deletes, to + inserts);
    };
    turn(&database, 1000, 0);
    let mut figures = Vec::new();
    for round in 0..120 {
        turn(&database, 200, 200);
        if round % 20 == 19 {
            figures.push(used(&database));
        }
    }
    println!("pages of a queue of 1000 rows, every 4000 rows: {figures:?}");
    let (least, most) = (figures.iter().min().unwrap(), figures.iter().max().unwrap());
    assert!(*most <= least + 24, "{figures:?}");
    for _ in 0..20 {
        turn(&database, 1000, 0);
    }
    let full = used(&database);
    for _ in 0..42 {
        turn(&database, 0, 500);
    }
    let empty = used(&database);
    println!("pages of 21,000 rows {full}, of none {empty}");
    // Which of the last leaves are merged depends on who is at work beside the collection.
    assert!(full > 300 && empty * 5 < full, "{full} pages with rows, {empty} without");
}

/// All rows around some that a running transaction has changed are deleted and collected; then it
/// rolls back.
#[test]
fn a_leaf_with_undo_is_left_alone_until_it_has_none() {
    let database = Database::open_in_memory(options()).unwrap();
    let table = make_table(&database);
    transact(&database, |it| {
        (0..600).try_for_each(|id| insert(it, table, id, &texts(id)).map(drop))
    })
    .unwrap();
    let held = 295..300;
    let over = Arc::new(AtomicBool::new(false));
    let changed = Arc::new(AtomicBool::new(false));
    let (other, other_over, other_changed) = (database.clone(), over.clone(), changed.clone());
    let ids = held.clone();
    let holder = std::thread::spawn(move || {
        let ran = other.run(Target::Instance(InstanceId(0)), |context| {
            let mut session = Session::new(context.instance());
            let isolation = Isolation::ReadCommitted;
            let mut transaction = session.begin(context, isolation, Access::ReadWrite).unwrap();
            for id in ids {
                let mut statement = transaction.statement(&mut session, context).unwrap();
                update(&mut statement, table, id, &[(2, Some(vec![b'n'; 50]))]).unwrap();
            }
            other_changed.store(true, Ordering::SeqCst);
            while !other_over.load(Ordering::SeqCst) {
                // A command's snapshot holds what is collected back: take a newer one.
                drop(transaction.statement(&mut session, context).unwrap());
                context.park(Some(context.now_ns() + 1_000_000));
            }
            transaction.rollback(&mut session, context);
        });
        ran.unwrap();
    });
    while !changed.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let full = database.metrics().unwrap().pool.used;
    transact(&database, |it| {
        let mut others = (0..600).filter(|id| !held.contains(id));
        others.try_for_each(|id| delete(it, table, id))
    })
    .unwrap();
    let until = Instant::now() + Duration::from_secs(90);
    while database.metrics().unwrap().pool.used + 6 > full {
        assert!(Instant::now() < until, "the rows around are collected");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(30));
    over.store(true, Ordering::SeqCst);
    holder.join().unwrap();
    let rows = all(&database, table);
    assert!(rows.keys().copied().eq(held) && rows.iter().all(|(id, row)| *row == texts(*id)));
    check(&database);
}
