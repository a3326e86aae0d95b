//! The tests of rings and memif in one program, so that they are linked once. The test that counts
//! the resources of its process is a program beside this folder.

mod interleavings;
mod memif;
mod ring;
