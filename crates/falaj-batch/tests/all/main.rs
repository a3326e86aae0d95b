//! The tests of rings and memif: one program, so that they are linked once. The one that counts
//! what its process holds is a program beside this folder.

mod interleavings;
mod memif;
mod ring;
