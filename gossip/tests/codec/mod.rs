//! Frames as bytes: golden, there and back, and every reason for which bytes are refused.

mod golden;
mod refusals;
mod round_trip;
