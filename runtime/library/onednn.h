// oneDNN, opened when it is first needed. A program that runs bundles does not link it, so that it starts on a machine
// without it; matrix products and convolutions are then computed by this library's own loops, which take longer
// (docs/performance.md).
#ifndef SMELT_RUNTIME_LIBRARY_ONEDNN_H_
#define SMELT_RUNTIME_LIBRARY_ONEDNN_H_

namespace smelt {

// Opens oneDNN 2.x, once: the file that the environment variable SMELT_ONEDNN names ("off": none), else
// smelt/libdnnl.so.2 next to the file that holds this code, else the system's libdnnl.so.2. On AArch64 only the named
// one is opened: what Linux distributions build there computes in reference code, far slower than this library. Returns
// false if there is none, or if it lacks a function that is called here. Every function of oneDNN then returns
// dnnl_unimplemented.
bool HasOnednn();

// oneDNN computes with OpenMP, and uses these settings of the calling thread. Without oneDNN there is one thread.
int OpenMpThreads();
void SetOpenMpThreads(int threads);

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_ONEDNN_H_
