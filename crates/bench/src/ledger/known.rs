//! The sites that docs/scaling.md knows: what class each is of, and why it is there.
//!
//! Invariants: the table between two marks is the list, and nothing else is; its figures are those
//! of the run that wrote it, its classes and reasons a person's, which writing keeps. A site without
//! both is as unknown as one that is not there. The totals, between two other marks, are written
//! with it.

use std::collections::BTreeMap;

use atoll_kernel::sync::ledger::What;

use super::{Cost, Costs, RARE, Site};

/// What the table of sites is between.
const SITES: (&str, &str) = ("<!-- sites -->\n", "<!-- end of sites -->\n");
/// What the totals are between.
const TOTALS: (&str, &str) = ("<!-- totals -->\n", "<!-- end of totals -->\n");
const HEAD: &str = "| site | class | often | shared | why |\n| --- | --- | --- | --- | --- |\n";
/// What nobody has written yet.
const UNSAID: &str = "?";
/// Sites of instances' own words may share so much of a transaction: who sleeps is woken by
/// others, tasks end, the database is looked at from outside.
const OWN_SHARED_MAX: f64 = 0.05;

/// Who writes the words of a site, and who else needs them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// An instance's own; nobody else needs them in time.
    Own,
    /// Written by one instance and read by others, who must learn of it.
    Told,
    /// Latches of pages: shared if two transactions share the page.
    Latch,
    /// Rows, and transactions that wait for each other's: shared if two transactions share the row.
    Row,
    /// Written by several instances whether or not their transactions meet.
    Common,
}

impl Class {
    const ALL: [Class; 5] = [Class::Own, Class::Told, Class::Latch, Class::Row, Class::Common];

    /// Its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Own => "own",
            Class::Told => "told",
            Class::Latch => "latch",
            Class::Row => "row",
            Class::Common => "common",
        }
    }
}

/// A line of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownSite {
    /// Its class; none if nobody has said it.
    pub class: Option<Class>,
    /// Why it is there, and what it would take to remove it; empty if nobody has said it.
    pub why: String,
    // As the table shows them.
    often: String,
    shared: String,
}

/// The table of docs/scaling.md.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Known(BTreeMap<String, KnownSite>);

/// What a run has that the table does not account for.
#[derive(Clone, PartialEq, Debug)]
pub enum Unknown {
    /// A site that is not in the table, or has no class or no reason there.
    Site(Site, Cost),
    /// A site that is said to be of an instance's own words, and is shared.
    Shared(Site, Cost),
}

impl Unknown {
    /// The site.
    pub fn site(&self) -> &Site {
        match self {
            Unknown::Site(site, _) | Unknown::Shared(site, _) => site,
        }
    }

    /// Whether the table knows the site, and says of it that it is an instance's own.
    pub fn is_shared(&self) -> bool {
        matches!(self, Unknown::Shared(..))
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unknown::Site(site, cost) => write!(
                f,
                "`{site}` is not known: {:.3} a transaction, {:.3} shared",
                cost.times, cost.shared
            ),
            Unknown::Shared(site, cost) => write!(
                f,
                "`{site}` is said to be an instance's own: {:.3} a transaction, {:.3} shared",
                cost.times, cost.shared
            ),
        }
    }
}

impl Known {
    /// Reads the table in `text`; an error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Known, String> {
        let mut known = Known::default();
        let (_, table, _) = parts(text, SITES)?;
        for line in table.lines().skip(HEAD.lines().count()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, site, class, often, shared, why, _] = cells[..] else {
                return Err(format!("not five cells: {line}"));
            };
            let name = site.trim_matches('`').to_owned();
            let class = match class {
                UNSAID => None,
                name => Some(
                    Class::ALL
                        .into_iter()
                        .find(|class| class.name() == name)
                        .ok_or_else(|| format!("no class is called {name}"))?,
                ),
            };
            let why = if why == UNSAID { "" } else { why }.to_owned();
            let (often, shared) = (often.to_owned(), shared.to_owned());
            if known.0.insert(name, KnownSite { class, why, often, shared }).is_some() {
                return Err(format!("{site} is there twice"));
            }
        }
        Ok(known)
    }

    /// A site's line.
    pub fn get(&self, site: &Site) -> Option<&KnownSite> {
        self.0.get(&site.to_string())
    }

    /// What this table does not account for, of sites that are met at least `times` in a
    /// transaction of some type.
    pub fn unknown(&self, costs: &Costs, times: f64) -> Vec<Unknown> {
        let met = counted(costs).filter(|site| costs.is_met(site, times));
        met.filter_map(|site| {
            let cost = costs.all(site);
            match self.get(site) {
                Some(KnownSite { class: Some(class), why, .. }) if !why.is_empty() => {
                    let is_shared = *class == Class::Own && cost.shared > OWN_SHARED_MAX;
                    is_shared.then(|| Unknown::Shared(site.clone(), cost))
                }
                _ => Some(Unknown::Site(site.clone(), cost)),
            }
        })
        .collect()
    }

    /// Shared read-modify-writes of sites of `class`, per transaction.
    pub fn shared_changes(&self, costs: &Costs, class: Class) -> f64 {
        let of_class = costs.sites().filter(|site| {
            site.what.changes() > 0 && self.get(site).is_some_and(|it| it.class == Some(class))
        });
        of_class.map(|site| costs.all(site).shared).sum()
    }

    /// `text` with the figures of a run in its table: sites that it met, and those known before.
    pub fn written(&self, text: &str, costs: &Costs) -> Result<String, String> {
        let (before, _, after) = parts(text, SITES)?;
        let mut lines = self.0.clone();
        for site in counted(costs).filter(|site| costs.is_met(site, RARE)) {
            let cost = costs.all(site);
            let second = if site.what.writes_a_word() { cost.shared } else { cost.each() };
            let unit = match site.what.writes_a_word() {
                true => "",
                false if cost.amount == 0.0 => "",
                false if site.what.name() == "write" => " bytes",
                false => " ns",
            };
            let old = lines.remove(&site.to_string());
            let (class, why) = old.map_or((None, String::new()), |it| (it.class, it.why));
            let often = super::show::figure(cost.times);
            let shared = format!("{}{unit}", super::show::figure(second));
            lines.insert(site.to_string(), KnownSite { class, why, often, shared });
        }
        let line = |(name, site): (&String, &KnownSite)| {
            let class = site.class.map_or(UNSAID, Class::name);
            let why = if site.why.is_empty() { UNSAID } else { &site.why };
            format!("| `{name}` | {class} | {} | {} | {why} |\n", site.often, site.shared)
        };
        let mut sorted: Vec<_> = lines.iter().collect();
        let number = |site: &KnownSite| {
            Class::ALL.iter().position(|class| site.class == Some(*class)).map_or(0, |at| at + 1)
        };
        sorted.sort_by_key(|(_, site)| std::cmp::Reverse(number(site)));
        let table: String = sorted.into_iter().map(line).collect();
        let text = format!("{before}{HEAD}{table}{after}");
        let (before, _, after) = parts(&text, TOTALS)?;
        Ok(format!("{before}{}{after}", costs.totals()))
    }
}

/// Sites that the table has: waits are where latches are, and come and go with the machine's load;
/// a latch taken is where its read-modify-write is.
fn counted(costs: &Costs) -> impl Iterator<Item = &Site> {
    costs.sites().filter(|site| !site.what.is_wait() && site.what != What::Latch)
}

/// `text` up to what is between two marks, that, and the rest.
fn parts<'t>(
    text: &'t str,
    (begin, end): (&str, &str),
) -> Result<(&'t str, &'t str, &'t str), String> {
    let missing = || format!("no table between {} and {}", begin.trim(), end.trim());
    let from = text.find(begin).ok_or_else(missing)? + begin.len();
    let to = from + text[from..].find(end).ok_or_else(missing)?;
    Ok((&text[..from], &text[from..to], &text[to..]))
}
