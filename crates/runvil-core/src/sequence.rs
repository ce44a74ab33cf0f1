//! A persistent sequence: clones share everything, and a change copies one path.

use std::sync::Arc;

/// Items in a leaf and children of an inner node.
const WIDTH: usize = 64;

/// A list whose clone costs the same for any length.
///
/// Adding an item to a clone, reading one and cutting the end off cost a handful of steps; there is no other change.
#[derive(Debug, Clone)]
pub(crate) struct Sequence<T> {
    /// All full leaves but the last one.
    root: Option<Arc<Node<T>>>,
    /// Inner levels below the root.
    height: u32,
    /// Leaves under the root.
    leaves: usize,
    tail: Arc<Vec<T>>,
}

#[derive(Debug, Clone)]
enum Node<T> {
    Leaves(Vec<Arc<Vec<T>>>),
    Inner(Vec<Arc<Node<T>>>),
}

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Self { root: None, height: 0, leaves: 0, tail: Arc::new(Vec::new()) }
    }
}

/// Leaves that a full node with this many inner levels below it holds.
fn capacity(height: u32) -> usize {
    WIDTH.saturating_pow(height + 1)
}

impl<T: Clone> Sequence<T> {
    pub(crate) fn len(&self) -> usize {
        self.leaves * WIDTH + self.tail.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.leaf(index / WIDTH)?.get(index % WIDTH)
    }

    /// Whether most items live on when this sequence is dropped.
    pub(crate) fn is_shared(&self) -> bool {
        self.root.as_ref().is_none_or(|root| Arc::strong_count(root) > 1)
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.get(self.len().checked_sub(1)?)
    }

    fn leaf(&self, number: usize) -> Option<&[T]> {
        if number >= self.leaves {
            return (number == self.leaves).then_some(&self.tail);
        }
        let (mut node, mut height) = (self.root.as_ref()?, self.height);
        loop {
            match &**node {
                Node::Leaves(leaves) => return leaves.get(number % WIDTH).map(|leaf| leaf.as_slice()),
                Node::Inner(children) => {
                    node = children.get(number / capacity(height - 1) % WIDTH)?;
                    height -= 1;
                }
            }
        }
    }

    /// The items from this index on.
    pub(crate) fn iter_from(&self, index: usize) -> Iter<'_, T> {
        let number = index / WIDTH;
        let leaf = self.leaf(number).and_then(|leaf| leaf.get(index % WIDTH..)).unwrap_or(&[]);
        Iter { sequence: self, next_leaf: number + 1, leaf: leaf.iter() }
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.tail.len() == WIDTH {
            let full = std::mem::replace(&mut self.tail, Arc::new(Vec::with_capacity(WIDTH)));
            self.push_leaf(full);
        }
        Arc::make_mut(&mut self.tail).push(item);
    }

    fn push_leaf(&mut self, leaf: Arc<Vec<T>>) {
        let number = self.leaves;
        self.leaves += 1;
        let Some(root) = &mut self.root else {
            self.root = Some(Arc::new(Node::Leaves(vec![leaf])));
            self.height = 0;
            return;
        };
        if number == capacity(self.height) {
            *root = Arc::new(Node::Inner(vec![Arc::clone(root)]));
            self.height += 1;
        }
        insert(root, self.height, number, leaf);
    }

    /// Keeps the first `len` items.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        let full = self.leaves * WIDTH;
        if len >= full {
            Arc::make_mut(&mut self.tail).truncate(len - full);
            return;
        }
        let number = len / WIDTH;
        let kept = self.leaf(number).and_then(|leaf| leaf.get(..len % WIDTH)).unwrap_or(&[]).to_vec();
        self.tail = Arc::new(kept);
        self.leaves = number;
        match &mut self.root {
            Some(root) if number > 0 => {
                cut(root, self.height, number);
                // A root with one child would only make every walk longer.
                while let Node::Inner(children) = &**root {
                    let [child] = children.as_slice() else { break };
                    *root = Arc::clone(child);
                    self.height -= 1;
                }
            }
            root => {
                *root = None;
                self.height = 0;
            }
        }
    }
}

fn insert<T: Clone>(node: &mut Arc<Node<T>>, height: u32, number: usize, leaf: Arc<Vec<T>>) {
    match Arc::make_mut(node) {
        Node::Leaves(leaves) => leaves.push(leaf),
        Node::Inner(children) => {
            let child = number / capacity(height - 1) % WIDTH;
            if child == children.len() {
                let empty = if height == 1 { Node::Leaves(Vec::new()) } else { Node::Inner(Vec::new()) };
                children.push(Arc::new(empty));
            }
            insert(&mut children[child], height - 1, number, leaf);
        }
    }
}

/// Keeps the first `leaves` leaves of a node, at least one.
fn cut<T: Clone>(node: &mut Arc<Node<T>>, height: u32, leaves: usize) {
    match Arc::make_mut(node) {
        Node::Leaves(all) => all.truncate(leaves),
        Node::Inner(children) => {
            let each = capacity(height - 1);
            children.truncate(leaves.div_ceil(each));
            if let Some(last) = children.last_mut() {
                cut(last, height - 1, (leaves - 1) % each + 1);
            }
        }
    }
}

/// Items of a sequence, in order.
#[derive(Debug, Clone)]
pub(crate) struct Iter<'a, T> {
    sequence: &'a Sequence<T>,
    next_leaf: usize,
    leaf: std::slice::Iter<'a, T>,
}

impl<'a, T: Clone> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.leaf.next() {
                return Some(item);
            }
            self.leaf = self.sequence.leaf(self.next_leaf)?.iter();
            self.next_leaf += 1;
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let later = self.sequence.len().saturating_sub(self.next_leaf * WIDTH);
        let left = self.leaf.len() + later;
        (left, Some(left))
    }
}

impl<T: Clone> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_shrinks_like_a_vector() {
        let mut sequence = Sequence::default();
        let mut model = Vec::new();
        // Past two levels: 64 * 64 * 64 items and more.
        for item in 0..300_000_usize {
            sequence.push(item);
            model.push(item);
        }
        let whole = sequence.clone();
        for len in [299_999, 262_145, 262_144, 262_143, 100_000, 4_160, 4_096, 4_095, 128, 65, 64, 63, 1, 0] {
            sequence.truncate(len);
            model.truncate(len);
            assert_eq!(sequence.len(), len);
            assert!(sequence.iter_from(0).eq(&model), "cut to {len}");
            assert_eq!(sequence.last(), model.last());
            let mut longer = sequence.clone();
            for item in 0..200 {
                longer.push(item);
            }
            assert_eq!(longer.len(), len + 200);
            assert!(longer.iter_from(len).copied().eq(0..200), "grown from {len}");
            assert!(sequence.iter_from(0).eq(&model));
        }
        assert!(whole.iter_from(0).copied().eq(0..300_000));
        assert_eq!(whole.get(271_828), Some(&271_828));
        assert_eq!(whole.get(300_000), None);
        assert_eq!(whole.iter_from(299_990).len(), 10);
        assert_eq!(whole.iter_from(300_001).next(), None);
    }
}
