//! Runs a prompt document as a state machine that asks for effects.
