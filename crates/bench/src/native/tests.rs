//! The open loop: what arrives is done, however slowly, and waits count from the arrival. Calls from outside:
//! where they run, and that each client comes to its turn.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use atoll_kernel::api::{AffinityKey, Database, InstanceId, Target};
use atoll_kernel::runtime::RuntimeOptions;

use super::{Course, Native, drive, prepare};
use crate::arrivals::Rate;
use crate::choice::Choice;
use crate::report::{Driven, Report};
use crate::setting::{Calls, Isolation, Setting, Way};
use crate::smallbank::SmallBank;
use crate::sql::numbers;
use crate::testing::{open_with, run_tiny, setting};
use crate::tpcc::{Affinity, Mix, Size, Tpcc};
use crate::workload::Acknowledge;

const ROUTED: Calls = Calls::Outside(Way::Routed);
const ANYWHERE: Calls = Calls::Outside(Way::Anywhere);

fn arriving(calls: Calls, clients: u64, rate: f64) -> Report {
    let rate = Some(Rate::new(rate).unwrap());
    let setting = Setting { calls, clients, rate, ..setting(Isolation::ReadCommitted) };
    run_tiny(&SmallBank::new(100, Choice::Uniform).unwrap(), &setting)
}

/// Clients that wait for arrivals do each of them once, also where there are more clients than
/// transactions.
#[test]
fn as_many_are_done_as_arrive() {
    for (calls, clients, rate) in [
        (Calls::Inside, 8, 200.0),
        (Calls::Inside, 32, 10.0),
        (ROUTED, 8, 200.0),
        (ANYWHERE, 32, 10.0),
    ] {
        let report = arriving(calls, clients, rate);
        assert_eq!(report.driven.counts.transactions(), rate as u64, "{report}");
        assert_eq!(report.driven.latencies.count(), rate as u64, "{report}");
        let json = report.json();
        assert_eq!((&json["loop"], &json["rate"]), (&"open".into(), &rate.into()), "{json}");
        assert_eq!(json["unserved"], 0, "{json}");
        assert!(report.to_string().contains("arrivals a second"), "{report}");
    }
}

/// Far more than can be done: the queue grows all the time, so half of those that were served have
/// waited for half of the run, though each took no longer than before; the others are told.
#[test]
fn arrivals_are_not_omitted() {
    let report = arriving(Calls::Inside, 2, 10_000_000.0);
    let counts = report.driven.counts.transactions();
    assert!(report.driven.latencies.percentile_us(50.0) > 500_000, "{report}");
    assert_eq!(report.driven.unserved, 10_000_000 - counts, "{report}");
    assert_eq!(report.json()["unserved"], report.driven.unserved);
    assert!(report.to_string().contains("arrivals were not served"), "{report}");
}

fn of_orders(warehouses: i32) -> Tpcc {
    let (size, mix, affinity) = (Size::TINY, Mix::NewOrder, Affinity::Home);
    Tpcc { warehouses, size, mix, affinity }
}

/// Orders are entered for a second, in the tables of so many warehouses.
fn enter_orders(database: &Database, warehouses: i32, setting: &Setting) -> Driven {
    let workload = of_orders(warehouses);
    prepare(database, &workload, 42, &mut |_| ()).unwrap();
    let driven = drive_orders(database, &workload, setting);
    workload.verify(database, &(), &()).unwrap();
    driven
}

/// The same in tables that are there: nothing but transactions asks for an instance.
fn drive_orders(database: &Database, workload: &Tpcc, setting: &Setting) -> Driven {
    let course = Course {
        duration: Duration::from_secs(1),
        stop: Arc::new(OnceLock::new()),
        acknowledge: Acknowledge::Nothing,
    };
    let tables = Tpcc::tables(&database.catalog()).unwrap();
    drive(database, (workload, &tables), setting, &course, &mut |_| ()).unwrap()
}

fn calling(calls: Calls, clients: u64) -> Setting {
    Setting { calls, clients, ..setting(Isolation::ReadCommitted) }
}

/// Where warehouse 1 hashes to, of two instances; and the other one.
fn there() -> (InstanceId, InstanceId) {
    let there = AffinityKey::from(1_i64).instance(2);
    (there, InstanceId(1 - there.0))
}

/// Commits that an instance's log has.
fn commits(database: &Database, instance: InstanceId) -> u64 {
    database.metrics().unwrap().logs[usize::from(instance.0)].commits
}

#[test]
fn routed_transactions_run_where_their_key_hashes_to() {
    // Longer than any test lasts: the machine may be so busy that an instance seems overloaded.
    let runtime = RuntimeOptions { steal_after_ns: 3_600_000_000_000, ..Default::default() };
    let database = open_with(2, runtime);
    let (there, other) = there();
    enter_orders(&database, 1, &calling(Calls::Inside, 1));
    let before = (commits(&database, there), commits(&database, other));
    let driven = enter_orders(&database, 1, &calling(ROUTED, 4));
    let committed = driven.counts.transactions() - driven.counts.rollbacks();
    assert!(committed > 0);
    assert_eq!(driven.counts.elsewhere, 0);
    assert_eq!(commits(&database, there) - before.0, committed);
    assert_eq!(commits(&database, other), before.1);
    database.close().unwrap();
}

/// The instance that all of it hashes to is busy: the other one, which is idle, takes it.
#[test]
fn routed_work_that_waits_is_stolen() {
    let database = open_with(2, RuntimeOptions::default());
    let (there, _) = there();
    enter_orders(&database, 1, &calling(Calls::Inside, 1));
    let (done, (sender, receiver)) = (Arc::new(OnceLock::new()), mpsc::channel());
    let until = done.clone();
    database.spawn(Target::Instance(there), move |_| {
        let began = Instant::now();
        sender.send(()).unwrap();
        while until.get().is_none() && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    receiver.recv().unwrap();
    let driven = drive_orders(&database, &of_orders(1), &calling(ROUTED, 4));
    done.set(()).unwrap();
    assert!(driven.counts.transactions() > 0);
    assert_eq!(driven.counts.elsewhere, driven.counts.transactions());
    database.close().unwrap();
}

/// With one transaction admitted at once, each client comes to its turn all the same: every one enters
/// orders in a warehouse of its own.
#[test]
fn each_client_that_calls_makes_progress() {
    for calls in [ROUTED, ANYWHERE] {
        let runtime = RuntimeOptions { admission_max: 1, ..Default::default() };
        let (database, clients) = (open_with(2, runtime), 8);
        let loaded = i64::from(Size::TINY.customers) * 10;
        enter_orders(&database, clients, &calling(calls, clients as u64));
        for warehouse in 1..=clients {
            let text = format!("select count(*) from orders where o_w_id = {warehouse}");
            let [orders] = numbers(&mut &database, &text).unwrap();
            assert!(orders > loaded, "{calls:?}: {orders} orders in warehouse {warehouse}");
        }
        database.close().unwrap();
    }
}
