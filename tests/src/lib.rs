//! What the tests over the whole product share: starting real agents, and stopping them again.
