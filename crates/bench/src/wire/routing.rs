//! Whether sessions go to the instance where their data is: what a server is told of it, and what it
//! tells of it afterwards. Only Atoll has instances.
//!
//! Invariants: a server that knows no affinity is refused before anything is loaded, and tables that say
//! something else than the run does, before clients run. What was counted is of all the server's sessions.

use atoll_kernel::api::AffinityKey;
use postgres::Client;
use serde_json::{Value, json};

use super::{Result, Wire, message};
use crate::sql::{number, numbers};

/// What a client's transactions are near to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// The key that its instance is found by.
    pub key: i64,
    /// How the server knows of it.
    pub told_by: ToldBy,
}

/// Who tells a server what transactions are near to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
    /// The tables, which are made WITH (affinity = column).
    Tables,
    /// Each client, when its session begins: SET atoll.affinity.
    Client,
}

/// Where a session is when its client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the instance that its key hashes to.
    Home,
    /// On another one.
    Elsewhere,
}

/// What became of sessions while clients ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// Clients whose sessions were at home in the end.
    pub at_home: u64,
    /// Times that one went to another instance.
    pub moved: u64,
    /// Times that one wanted to, and could not.
    pub kept: u64,
    /// Transactions with a key that ran where it hashes to.
    pub near: u64,
    /// Those that ran elsewhere.
    pub far: u64,
}

impl Sessions {
    /// What a server has counted since its start; nobody is at home yet.
    pub fn counted(client: &mut Client) -> Result<Sessions> {
        let text = "select sum(sessions_arrived)::int8, sum(sessions_kept)::int8, \
                    sum(transactions_near)::int8, sum(transactions_far)::int8 from atoll_routing";
        let [moved, kept, near, far] = numbers(client, text)?.map(i64::cast_unsigned);
        Ok(Sessions { at_home: 0, moved, kept, near, far })
    }

    /// What was counted since then, and how many are at home.
    pub fn since(&self, before: &Sessions, at_home: u64) -> Sessions {
        Sessions {
            at_home,
            moved: self.moved - before.moved,
            kept: self.kept - before.kept,
            near: self.near - before.near,
            far: self.far - before.far,
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "at_home": self.at_home,
            "moved": self.moved,
            "kept": self.kept,
            "transactions_near": self.near,
            "transactions_far": self.far,
        })
    }

    /// For people, of so many clients.
    pub fn line(&self, clients: u64) -> String {
        let Sessions { at_home, moved, kept, near, far } = self;
        let share = *near as f64 * 100.0 / (near + far).max(1) as f64;
        format!(
            "sessions: {at_home} of {clients} on their data's instance in the end; {moved} moves, {kept} put \
             off; {share:.1} percent of transactions ran there"
        )
    }
}

/// An error, before anything is loaded, if the server cannot do what the workload asks of it.
pub fn check_server<W: Wire>(client: &mut Client, workload: &W) -> Result<()> {
    if workload.near(0).is_none() || knows_affinity(client) {
        return Ok(());
    }
    Err("this server knows no affinity, it is not Atoll: --affinity none".to_owned())
}

/// An error if tables that are there tell the server something else than the workload says.
pub fn check_tables<W: Wire>(client: &mut Client, workload: &W) -> Result<()> {
    let told_by = workload.near(0).map(|near| near.told_by);
    // A client's word goes before a table's.
    if told_by == Some(ToldBy::Client) || !knows_affinity(client) {
        return Ok(());
    }
    let names: Vec<String> = W::TABLES.iter().map(|name| format!("'{name}'")).collect();
    let text = format!(
        "select count(*) from pg_class where relkind = 'r' and relname in ({}) \
         and reloptions::text like '%affinity=%'",
        names.join(", ")
    );
    match (number(client, &text)? > 0, told_by) {
        (true, None) => Err("the tables are there WITH (affinity): --affinity table".to_owned()),
        (false, Some(_)) => {
            Err("the tables are there without affinity: drop them, or --affinity hint".to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether the server has the setting. One without pg_settings has not.
fn knows_affinity(client: &mut Client) -> bool {
    let text = "select count(*) from pg_settings where name = 'atoll.affinity'";
    number(client, text).is_ok_and(|count| count > 0)
}

/// A client's session begins: it says what it is near to, if it is to.
pub fn begin(client: &mut Client, near: Option<Near>) -> Result<()> {
    let Some(Near { key, told_by: ToldBy::Client }) = near else { return Ok(()) };
    let text = format!("set atoll.affinity = '{key}'");
    client.batch_execute(&text).map_err(|error| message(&error))
}

/// Where a client's session is.
pub fn place(client: &mut Client, near: Near) -> Result<Place> {
    let text = "select atoll_instance(), (select count(*) from atoll_routing)";
    let [here, instances] = numbers(client, text)?.map(i64::cast_unsigned);
    let home = AffinityKey::from(near.key).instance(instances.max(1) as usize);
    Ok(if here == u64::from(home.0) { Place::Home } else { Place::Elsewhere })
}
