//! What differs from dialect to dialect: one file each.

pub(crate) mod runvil;
