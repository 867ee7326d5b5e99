//! What the tests of this workspace share: real servers, poolers and replicas
