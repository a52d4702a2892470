//! Checks over the whole workspace, and the product run as users run it.

mod licences;
mod one_node;
mod star;
