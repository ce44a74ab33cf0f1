//! Where a list can be cut without splitting a batch of tool calls: at user records.

use crate::list::MessageList;
use crate::role::Role;

/// The part of a list that a compactor may drop: from the first record after the leading system records to the record
/// before the kept turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnBounds {
    /// The first record after the leading system records, counted from 1.
    pub first: usize,
    /// The user record that the kept turns begin with, counted from 1; `None` when the list has fewer turns.
    pub cut: Option<usize>,
}

impl TurnBounds {
    /// The bounds that keep the last `turns` user records with everything after the first of them.
    ///
    /// Looks at the leading system records and at the kept turns only.
    pub fn of(list: &MessageList, turns: usize) -> Self {
        let first = list.leading_system_len() + 1;
        let users = (first..=list.len())
            .rev()
            .filter(|position| list.get(position - 1).is_some_and(|record| record.role() == Role::User));
        Self { first, cut: turns.checked_sub(1).and_then(|before| { users }.nth(before)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn the_cut_falls_on_a_user_record() {
        let mut list = MessageList::new();
        let bounds = |list: &MessageList, turns| {
            let TurnBounds { first, cut } = TurnBounds::of(list, turns);
            (first, cut)
        };
        assert_eq!(bounds(&list, 1), (1, None));
        for record in [
            Record::system("s"),
            Record::user("1"),
            Record::assistant("a"),
            Record::user("2"),
            Record::assistant("b"),
            Record::user("3"),
        ] {
            list.append(record).unwrap();
        }
        assert_eq!(bounds(&list, 1), (2, Some(6)));
        assert_eq!(bounds(&list, 2), (2, Some(4)));
        assert_eq!(bounds(&list, 3), (2, Some(2)));
        assert_eq!(bounds(&list, 4), (2, None));
        assert_eq!(bounds(&list, 0), (2, None));
    }
}
