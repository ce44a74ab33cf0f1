//! The tool call ids used so far: one hash and one position each, shared between copies of a list.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Where each tool call id was used.
///
/// Ids are kept as 64-bit hashes with a key of their own; whoever finds a hash compares the id itself. Copies share
/// their layers, and only the newest layer, while no copy shares it, takes new ids.
#[derive(Debug, Clone)]
pub(crate) struct SeenIds {
    hasher: RandomState,
    layers: Vec<Layer>,
}

#[derive(Debug, Clone)]
struct Layer {
    ids: Arc<Ids>,
    /// Positions from here on no longer count.
    limit: usize,
}

#[derive(Debug, Clone, Default)]
struct Ids {
    first: HashMap<u64, usize, BuildHasherDefault<Unchanged>>,
    /// Positions whose hash an other id had before.
    collisions: Vec<(u64, usize)>,
}

impl Ids {
    fn insert(&mut self, hash: u64, position: usize) {
        if let Some(before) = self.first.insert(hash, position) {
            self.collisions.push((hash, before));
        }
    }

    fn len(&self) -> usize {
        self.first.len() + self.collisions.len()
    }

    fn positions(&self, hash: u64) -> impl Iterator<Item = usize> {
        let first = self.first.get(&hash).copied();
        let others = self.collisions.iter().filter(move |(other, _)| *other == hash);
        first.into_iter().chain(others.map(|(_, position)| *position))
    }

    fn all(&self) -> impl Iterator<Item = (u64, usize)> {
        self.first.iter().map(|(hash, position)| (*hash, *position)).chain(self.collisions.iter().copied())
    }
}

/// A hasher for keys that are hashes already.
#[derive(Debug, Clone, Copy, Default)]
struct Unchanged(u64);

impl Hasher for Unchanged {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Default for SeenIds {
    fn default() -> Self {
        Self { hasher: RandomState::new(), layers: Vec::new() }
    }
}

impl SeenIds {
    pub(crate) fn hash(&self, id: &str) -> u64 {
        self.hasher.hash_one(id)
    }

    /// Positions at which an id with this hash may have been used.
    pub(crate) fn positions(&self, hash: u64) -> impl Iterator<Item = usize> {
        self.layers.iter().flat_map(move |layer| layer.ids.positions(hash).filter(|position| *position < layer.limit))
    }

    pub(crate) fn insert(&mut self, hash: u64, position: usize) {
        if self.live().is_none() {
            // A layer that takes no more ids gets the limit of what it holds now.
            if let Some(last) = self.layers.last_mut() {
                last.limit = last.limit.min(position);
            }
            self.merge_layers();
            self.layers.push(Layer { ids: Arc::default(), limit: usize::MAX });
        }
        if let Some(ids) = self.live() {
            ids.insert(hash, position);
        }
    }

    /// The layer that takes new ids.
    fn live(&mut self) -> Option<&mut Ids> {
        self.layers.last_mut().filter(|layer| layer.limit == usize::MAX).and_then(|layer| Arc::get_mut(&mut layer.ids))
    }

    /// Forgets the ids used at this position and after it.
    pub(crate) fn forget_from(&mut self, position: usize) {
        for layer in &mut self.layers {
            layer.limit = layer.limit.min(position);
        }
        if position == 0 {
            self.layers.clear();
        }
    }

    /// Puts layers together until each is more than twice as large as the next newer one.
    fn merge_layers(&mut self) {
        while let [.., older, newer] = self.layers.as_slice() {
            if older.ids.len() > 2 * newer.ids.len() {
                return;
            }
            let mut merged = Ids::default();
            for layer in [older, newer] {
                for (hash, position) in layer.ids.all().filter(|(_, position)| *position < layer.limit) {
                    merged.insert(hash, position);
                }
            }
            let limit = newer.limit;
            self.layers.truncate(self.layers.len() - 2);
            self.layers.push(Layer { ids: Arc::new(merged), limit });
        }
    }
}
