//! The Python extension module of Runvil.
