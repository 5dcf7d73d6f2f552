// oneDNN, opened when it is first asked for. A program that runs bundles does not link it, so it starts on a machine
// that has none; the matrix products and convolutions that oneDNN would have computed are then computed by this
// library's own loops, which need more time (docs/performance.md).
#ifndef SMELT_RUNTIME_LIBRARY_ONEDNN_H_
#define SMELT_RUNTIME_LIBRARY_ONEDNN_H_

namespace smelt {

// Opens oneDNN 2.x, once: the file that the environment variable SMELT_ONEDNN names ("off": none), else
// smelt/libdnnl.so.2 beside the file that holds this code, else libdnnl.so.2 where the system looks for libraries.
// False: there is none, or it lacks a function that is called here. Every function of oneDNN then says
// dnnl_unimplemented.
bool HasOnednn();

// oneDNN computes with OpenMP, and heeds these settings of the calling thread. Without oneDNN there is one thread.
int OpenMpThreads();
void SetOpenMpThreads(int threads);

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_ONEDNN_H_
