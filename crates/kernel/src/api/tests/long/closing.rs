//! The database closes while a checkpoint writes long values.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::starts::{by_hand, insert_all, texts};
use super::*;
use crate::io::{SimDisk, SimOptions};

/// Nothing hangs and nothing is lost, whether the checkpoint is published before or comes to nothing.
#[test]
fn it_closes_while_a_checkpoint_writes_long_values() {
    let (mut published, mut given_up) = (0, 0);
    let disk = SimDisk::new(SimOptions::seeded(18));
    let open = || Database::open_on(Arc::new(disk.clone()), by_hand(), &mut |_| ()).unwrap();
    let database = open();
    let table = make_table(&database);
    database.close().unwrap();
    drop(database);
    let mut model = BTreeMap::new();
    for round in 0..12 {
        let database = open();
        let ids = round * 60..(round + 1) * 60;
        insert_all(&database, table, ids.clone());
        model.extend(ids.map(|id| (id, texts(id))));
        std::thread::scope(|scope| {
            let maker = scope.spawn(|| database.run(Target::Any, Database::checkpoint));
            std::thread::sleep(Duration::from_micros(500 * round as u64));
            database.close().unwrap();
            match maker.join().expect("it does not panic") {
                Ok(Ok(_)) => published += 1,
                Ok(Err(Error::ShuttingDown)) | Err(Error::ShuttingDown) => given_up += 1,
                other => panic!("round {round}: {other:?}"),
            }
        });
        drop(database);
    }
    println!("{published} published, {given_up} given up");
    let database = open();
    assert!(all(&database, table) == model);
    check(&database);
    database.close().unwrap();
}
