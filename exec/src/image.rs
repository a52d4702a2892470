//! Images of the node.
