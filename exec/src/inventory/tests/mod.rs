//! Inventories of machines, by captures of real ones and by trees made here.
