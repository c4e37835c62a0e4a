//! A session's portals, by name.
//!
//! Invariants: as a map of names, of which the empty one, that of nearly every Bind and Execute, has a
//! place of its own: it is neither hashed nor moved about.

use super::extended::Portal;
use rustc_hash::FxHashMap;

/// The portals.
#[derive(Default)]
pub(super) struct Portals {
    unnamed: Option<Portal>,
    named: FxHashMap<String, Portal>,
}

impl Portals {
    /// The portal of this name.
    pub fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    /// Is there one of this name?
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Takes a portal out.
    pub fn remove(&mut self, name: &str) -> Option<Portal> {
        if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) }
    }

    /// Takes a portal out with its name, for [`Portals::insert`].
    pub fn remove_entry(&mut self, name: &str) -> Option<(String, Portal)> {
        if name.is_empty() {
            return self.unnamed.take().map(|portal| (String::new(), portal));
        }
        self.named.remove_entry(name)
    }

    /// Puts a portal in, in the place of the one that has its name.
    pub fn insert(&mut self, name: String, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name, portal);
        }
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.unnamed.is_none() && self.named.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.unnamed = None;
        self.named.clear();
    }

    /// Lets those go that `stays` does not want.
    pub fn retain(&mut self, stays: impl Fn(&Portal) -> bool) {
        self.unnamed.take_if(|portal| !stays(portal));
        if !self.named.is_empty() {
            self.named.retain(|_, portal| stays(portal));
        }
    }

    /// All with names: cursors have one.
    pub fn named(&self) -> impl Iterator<Item = (&String, &Portal)> {
        self.named.iter()
    }

    /// Takes those with names out that `goes` wants.
    pub fn extract_named(&mut self, goes: impl Fn(&Portal) -> bool) -> Vec<(String, Portal)> {
        self.named.extract_if(|_, portal| goes(portal)).collect()
    }
}
