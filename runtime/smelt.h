/* Runs bundles: the C interface of smelt.
 *
 *   smelt_program* program;
 *   smelt_instance* instance;
 *   if (smelt_program_load("net.smb", &program) != SMELT_OK) return puts(smelt_last_error());
 *   if (smelt_instance_create(program, NULL, &instance) != SMELT_OK) return puts(smelt_last_error());
 *   float data[6] = {...};
 *   int64_t sizes[] = {2, 3};
 *   smelt_tensor* x = smelt_tensor_borrow(data, sizeof data, SMELT_FLOAT32, 2, sizes, NULL, 0);
 *   smelt_value arg = {SMELT_KIND_TENSOR, {.tensor = x}}, out;
 *   size_t outputs = 1;
 *   if (smelt_instance_run(instance, &arg, 1, &out, &outputs) != SMELT_OK) return puts(smelt_last_error());
 *   ... smelt_tensor_data(out.value.tensor) ...
 *   smelt_value_release(&out);
 *   smelt_tensor_release(x);
 *   smelt_instance_release(instance);
 *   smelt_program_release(program);
 *
 * Ownership. Whoever gets a handle from a function here releases it, once. A null handle may be released. Strings and
 * arrays that a function returns belong to the handle that they come from and live as long as it does, unless the
 * function says otherwise.
 *
 * Threads. A program may be used by several threads at a time, an instance by one. A tensor handle stands for one
 * tensor: if the model changes an argument's geometry, smelt_tensor_sizes() of the caller's handle shows it.
 *
 * Errors. A function that can fail returns a smelt_status, or a null handle; smelt_last_error() then says what is
 * wrong. No function throws or aborts on bad input or where memory is short (SMELT_RESOURCE_EXHAUSTED). Null where a
 * handle or a result is expected is SMELT_INVALID_ARGUMENT; functions that return no status give 0, null or nothing.
 *
 * Compatibility. Functions and enumerators are only ever added. A struct whose first member is struct_size grows at its
 * end: the caller sets that member to sizeof, and the library fills in what it and the caller both know. Other structs
 * stay as they are. SMELT_VERSION_MAJOR is raised when that does not hold.
 */
#ifndef SMELT_RUNTIME_SMELT_H_
#define SMELT_RUNTIME_SMELT_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SMELT_API __attribute__((visibility("default")))
#else
#define SMELT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. */
#define SMELT_VERSION_MAJOR 0
#define SMELT_VERSION_MINOR 1
#define SMELT_VERSION_PATCH 0

/* The version of the library that is linked: "0.1.0". */
SMELT_API const char* smelt_version(void);

/* Values are those of absl::StatusCode. */
typedef enum {
  SMELT_OK = 0,
  SMELT_INVALID_ARGUMENT = 3, /* does not fit the model's signature; not a bundle */
  SMELT_NOT_FOUND = 5,        /* no such file, no such state */
  SMELT_PERMISSION_DENIED = 7,
  SMELT_RESOURCE_EXHAUSTED = 8,  /* memory, files */
  SMELT_FAILED_PRECONDITION = 9, /* load: this machine lacks what the bundle needs; run: refused, as PyTorch would */
  SMELT_UNIMPLEMENTED = 12,      /* a newer format */
  SMELT_INTERNAL = 13,           /* a bug in smelt or in the compiler that made the bundle */
  SMELT_UNAVAILABLE = 14,
  SMELT_DATA_LOSS = 15 /* truncated or corrupt */
} smelt_status;

/* Returns the message of this thread's last call that did not return SMELT_OK. Valid until its next call. */
SMELT_API const char* smelt_last_error(void);

typedef enum {
  SMELT_BOOL = 0,
  SMELT_UINT8 = 1,
  SMELT_INT8 = 2,
  SMELT_INT16 = 3,
  SMELT_INT32 = 4,
  SMELT_INT64 = 5,
  SMELT_FLOAT16 = 6,
  SMELT_BFLOAT16 = 7,
  SMELT_FLOAT32 = 8,
  SMELT_FLOAT64 = 9,
  SMELT_COMPLEX64 = 10,
  SMELT_COMPLEX128 = 11,
  SMELT_FLOAT8_E4M3FN = 12,
  SMELT_FLOAT8_E5M2 = 13
} smelt_dtype;

/* "float32"; null for what is no smelt_dtype. Valid for the life of the process. */
SMELT_API const char* smelt_dtype_name(int dtype);
/* Bytes of an element; 0 for what is no smelt_dtype. */
SMELT_API size_t smelt_dtype_size(int dtype);

typedef enum {
  SMELT_KIND_NONE = 0,
  SMELT_KIND_TENSOR = 1,
  SMELT_KIND_INT = 2,
  SMELT_KIND_FLOAT = 3,
  SMELT_KIND_BOOL = 4,
  SMELT_KIND_STRING = 5,
  SMELT_KIND_COMPLEX = 6,
  SMELT_KIND_LIST = 7, /* of values, lists among them */
  SMELT_KIND_ARRAY = 8 /* an argument only: memory of the caller's, described in place */
} smelt_kind;

typedef struct smelt_program smelt_program;
typedef struct smelt_instance smelt_instance;
typedef struct smelt_tensor smelt_tensor;
typedef struct smelt_value smelt_value;

/* smelt_array.flags */
#define SMELT_ARRAY_READ_ONLY 1u /* nobody may write it */
#define SMELT_ARRAY_ROW_MAJOR 2u /* of arrays that functions here fill in: its strides are those of its sizes */

/* A tensor over the caller's memory, without a handle. sizes, strides and offset count elements; strides may be null
 * (row-major). The memory of two arrays of one call that share bytes counts as one storage. */
typedef struct {
  void* data;    /* the first byte of the memory, not of the tensor */
  int64_t bytes; /* of the memory */
  const int64_t* sizes;
  const int64_t* strides;
  int64_t offset; /* of the tensor's first element */
  int32_t dtype;
  int32_t rank;
  uint32_t flags;
  uint32_t reserved; /* 0 */
} smelt_array;

struct smelt_value {
  smelt_kind kind;
  union {
    smelt_tensor* tensor;
    const smelt_array* array;
    int64_t integer;
    double real;
    int boolean;
    struct {
      double real, imag;
    } cplx;
    struct {
      const char* data; /* UTF-8; of a result it ends in a NUL, which is not counted */
      size_t size;
    } string;
    struct {
      smelt_value* items;
      size_t size;
    } list;
  } value;
};

/* Releases what a result holds (its tensor, its string, the items of its list) and makes it SMELT_KIND_NONE. For values
 * that functions of this header have filled in; a value that the caller made is the caller's. */
SMELT_API void smelt_value_release(smelt_value* value);

/* --- tensors --- */

/* A tensor over the caller's memory, which must outlive it and all views of it (outputs may be such views, a model's
 * buffers never are). sizes, strides and offset count elements; strides may be NULL (row-major). Null if the tensor
 * would reach outside [data, data + bytes), or if there is no memory for the handle. */
SMELT_API smelt_tensor* smelt_tensor_borrow(void* data, size_t bytes, smelt_dtype dtype, int rank, const int64_t* sizes,
                                            const int64_t* strides, int64_t offset);
/* A tensor with memory of its own, uninitialized, row-major. Null if there is no such memory. */
SMELT_API smelt_tensor* smelt_tensor_create(smelt_dtype dtype, int rank, const int64_t* sizes);
/* Another tensor over the memory of `base`; the offset counts from the start of that memory. It is read-only where
 * `base` is. Null as for smelt_tensor_borrow. */
SMELT_API smelt_tensor* smelt_tensor_view(const smelt_tensor* base, int rank, const int64_t* sizes,
                                          const int64_t* strides, int64_t offset);
SMELT_API void smelt_tensor_release(smelt_tensor* tensor);

/* From here on a call of a model that writes this argument is refused (SMELT_INVALID_ARGUMENT). The flag belongs to the
 * handle; results that share memory with such an argument have it, too. */
SMELT_API void smelt_tensor_set_read_only(smelt_tensor* tensor);
SMELT_API int smelt_tensor_is_read_only(const smelt_tensor* tensor);

SMELT_API smelt_dtype smelt_tensor_dtype(const smelt_tensor* tensor);
SMELT_API int smelt_tensor_rank(const smelt_tensor* tensor);
/* `rank` numbers each; valid until the tensor's geometry changes or it is released. */
SMELT_API const int64_t* smelt_tensor_sizes(const smelt_tensor* tensor);
SMELT_API const int64_t* smelt_tensor_strides(const smelt_tensor* tensor);
SMELT_API int64_t smelt_tensor_offset(const smelt_tensor* tensor);
SMELT_API void* smelt_tensor_data(const smelt_tensor* tensor); /* the first element; null of a device's memory */
/* All of the above at once; the pointers in `array` are valid as long as those above. For a tensor in a device's memory
 * `data` is null. */
SMELT_API smelt_status smelt_tensor_describe(const smelt_tensor* tensor, smelt_array* array);
SMELT_API int smelt_tensor_is_same(const smelt_tensor* a, const smelt_tensor* b); /* one tensor under two handles */
SMELT_API int smelt_tensor_shares_storage(const smelt_tensor* a, const smelt_tensor* b);

/* --- devices: docs/cuda.md --- */

typedef enum { SMELT_DEVICE_CPU = 0, SMELT_DEVICE_CUDA = 1 } smelt_device_type;

/* Where the tensor's memory is. `index`, unless null, is set to the number of that device, 0 for the CPU. */
SMELT_API smelt_device_type smelt_tensor_device(const smelt_tensor* tensor, int* index);
/* The address of the first element on its device, which the CPU may not use unless it is the CPU's. */
SMELT_API uint64_t smelt_tensor_address(const smelt_tensor* tensor);
/* smelt_tensor_create on any device. SMELT_FAILED_PRECONDITION: this machine lacks it, or its driver;
 * SMELT_RESOURCE_EXHAUSTED: there is no such memory. */
SMELT_API smelt_status smelt_tensor_create_on(smelt_device_type type, int index, smelt_dtype dtype, int rank,
                                              const int64_t* sizes, smelt_tensor** tensor);
/* A copy on any device, with the same strides. Errors as above; SMELT_UNIMPLEMENTED: from one GPU to another. */
SMELT_API smelt_status smelt_tensor_copy_to(const smelt_tensor* tensor, smelt_device_type type, int index,
                                            smelt_tensor** copy);

/* Streams are numbered as the driver does (CUstream, cudaStream_t) and as __dlpack__(stream=...): 0 and 1 are the
 * default stream, 2 is the calling thread's.
 *
 * Later work on `stream` finds the tensor's contents, as a producer of DLPack tensors must see to. Nothing waits. */
SMELT_API smelt_status smelt_tensor_order_before(const smelt_tensor* tensor, uint64_t stream);

/* --- DLPack: tensors to and from other libraries, without a copy ---
 *
 * The types are those of dlpack.h, which the caller includes: this header only names them. Tensors must be in memory
 * that the CPU addresses (kDLCPU, kDLCUDAHost) or in that of a CUDA device (kDLCUDA). Calls on a CUDA device follow the
 * work on its default stream, and that on the stream of smelt_instance_start. So a producer must make its tensor ready
 * for one of them: stream 1 in __dlpack__(stream=1) is the default stream. A consumer that works on another stream asks
 * smelt_tensor_order_before for it. */

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* A tensor over the memory of `managed`. On success the tensor owns `managed`: its deleter runs, on any thread, when
 * the last tensor over that memory is gone. On an error `managed` is the caller's as before. A versioned one that is
 * read-only gives a read-only tensor.
 * SMELT_INVALID_ARGUMENT: another device, a dtype that smelt lacks, a negative stride or size, memory that is not
 * aligned to the elements. SMELT_UNIMPLEMENTED: another major version of DLPack than 1. */
SMELT_API smelt_status smelt_tensor_from_dlpack(struct DLManagedTensor* managed, smelt_tensor** tensor);
SMELT_API smelt_status smelt_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned* managed,
                                                          smelt_tensor** tensor);
/* The tensor as it is now, over the same memory. The receiver calls the deleter, on any thread; until then the memory
 * stays, whatever becomes of `tensor`. (Borrowed memory stays as long as its owner lets it.)
 * SMELT_FAILED_PRECONDITION: the tensor is a state whose memory a call may move (smelt_state_info.may_move), so that
 * nobody can hold on to it; or, of the first form, it is read-only, which only the versioned form can say. */
SMELT_API smelt_status smelt_tensor_to_dlpack(const smelt_tensor* tensor, struct DLManagedTensor** managed);
SMELT_API smelt_status smelt_tensor_to_dlpack_versioned(const smelt_tensor* tensor,
                                                        struct DLManagedTensorVersioned** managed);

/* --- programs --- */

SMELT_API smelt_status smelt_program_load(const char* path, smelt_program** program);
/* Copies the bytes. */
SMELT_API smelt_status smelt_program_load_from_memory(const void* bytes, size_t size, smelt_program** program);

typedef struct {
  size_t struct_size; /* sizeof(smelt_program_options) */
  int threads;        /* an instance uses at most so many; 0: one per core */
  int verify_weights; /* read all weights and compare their digests */
  const char* target; /* "x86-64-v3": that one or an error; null: the best that this machine runs */
  const char* device; /* "cuda:0": where arguments, states and results are; null: the CPU */
} smelt_program_options;
/* `options` may be null. */
SMELT_API smelt_status smelt_program_load_with(const char* path, const smelt_program_options* options,
                                               smelt_program** program);
SMELT_API void smelt_program_release(smelt_program* program); /* instances keep what they need */

/* --- what a program is --- */

typedef struct {
  size_t struct_size;     /* sizeof(smelt_program_info) */
  const char* model_name; /* of the file that was compiled */
  const char* target;     /* that runs here: "x86-64-v3"; "" if the bundle has no kernels */
  int bundle_format;
  size_t num_targets, num_methods, num_args, num_results, num_states;
} smelt_program_info;
SMELT_API smelt_status smelt_program_describe(const smelt_program* program, smelt_program_info* info);
/* The targets that the bundle has code for, and the names of its methods ("forward" unless it says so). Null: no such.
 */
SMELT_API const char* smelt_program_target(const smelt_program* program, size_t i);
SMELT_API const char* smelt_program_method(const smelt_program* program, size_t i);
/* The program of one method, to be released: its arguments and results, and the states of all methods. A program with
 * several methods has no arguments and results itself. SMELT_NOT_FOUND: smelt_last_error() lists the methods. */
SMELT_API smelt_status smelt_program_find_method(const smelt_program* program, const char* name,
                                                 smelt_program** method);

SMELT_API size_t smelt_program_num_args(const smelt_program* program);
SMELT_API size_t smelt_program_num_outputs(const smelt_program* program);
SMELT_API const char* smelt_program_arg_name(const smelt_program* program, size_t i); /* null if there is none */
SMELT_API const char* smelt_program_output_name(const smelt_program* program, size_t i);

/* A size, or an integer that is an argument, as far as it is known before a call. */
typedef struct {
  int64_t size;     /* the same in every call, or -1 where it varies */
  int64_t min, max; /* of the values that a call may have; INT64_MAX: no bound */
  const char* expr; /* "3", "s0", "(4 * s0)": equal symbols are equal sizes; "" where only the data of a call decide */
} smelt_dim;

/* The effects of some call of the model on an argument: smelt_arg_info.effects. */
#define SMELT_WRITES_DATA 1u
#define SMELT_CHANGES_GEOMETRY 2u /* sizes, strides or offset: t_, squeeze_ */
#define SMELT_REPLACES_STORAGE 4u /* set_ */
#define SMELT_RESIZES 8u          /* its memory may have to grow: resize_ */

typedef struct {
  size_t struct_size;     /* sizeof(smelt_arg_info) */
  const char* name;       /* the graph's: unique */
  const char* path;       /* where the caller has it: "x"; "d.k.0" for d["k"][0] */
  smelt_kind kind;        /* never LIST or ARRAY: arguments are flat */
  int dtype;              /* smelt_dtype of a tensor; else -1 */
  int rank;               /* of a tensor; else -1 */
  const smelt_dim* dims;  /* `rank` sizes */
  const int64_t* strides; /* `rank` strides of the exported example; -1 where they depend on sizes that vary */
  smelt_dim value;        /* of an integer */
  int has_constant;       /* the value was baked in at export: a call must pass `constant` */
  smelt_value constant;
  unsigned effects;
} smelt_arg_info;
SMELT_API smelt_status smelt_program_arg(const smelt_program* program, size_t i, smelt_arg_info* info);

/* Where a result lies, in a call whose arguments share no memory. */
typedef enum {
  SMELT_PLACE_UNKNOWN = 0,
  SMELT_PLACE_NO_TENSOR = 1,
  SMELT_PLACE_FRESH = 2,       /* in memory of its own */
  SMELT_PLACE_SHARED = 3,      /* in memory that other results may share */
  SMELT_PLACE_IN_ARGUMENT = 4, /* a view of argument `index` */
  SMELT_PLACE_IS_ARGUMENT = 5, /* argument `index` itself */
  SMELT_PLACE_IN_STATE = 6,    /* a view of state `index` */
  SMELT_PLACE_IS_STATE = 7     /* state `index` itself */
} smelt_place;

typedef struct {
  size_t struct_size;    /* sizeof(smelt_result_info) */
  const char* name;      /* as the model's caller says it ("logits", "aux.0") where it has names; else the graph's */
  const char* node;      /* the graph's */
  const char* path;      /* where it is in what the model returns: "logits", "0"; "" for a lone result */
  smelt_kind kind;       /* never LIST or ARRAY: results are flat */
  int dtype;             /* of a tensor, -1 if it is not known before a call; else -1 */
  int rank;              /* likewise */
  const smelt_dim* dims; /* `rank` sizes */
  smelt_place place;
  int index; /* of the argument or state; else -1 */
} smelt_result_info;
SMELT_API smelt_status smelt_program_result(const smelt_program* program, size_t i, smelt_result_info* info);

typedef enum { SMELT_PARAMETER = 0, SMELT_BUFFER = 1, SMELT_CONSTANT = 2 } smelt_state_kind;

typedef struct {
  size_t struct_size; /* sizeof(smelt_state_info) */
  const char* name;
  smelt_state_kind kind;
  int dtype, rank;
  const int64_t* sizes; /* as in the bundle, `rank` numbers each */
  const int64_t* strides;
  int64_t offset;
  int storage;    /* states with the same number share memory */
  int is_mutated; /* some call writes it or hands it out: each instance has its own */
  int may_move;   /* a call may resize its memory: addresses in it are good until the instance's next call */
} smelt_state_info;
SMELT_API smelt_status smelt_program_state(const smelt_program* program, size_t i, smelt_state_info* info);

/* How the caller nests arguments and results, as a tree: a node before its children. The leaves are the arguments or
 * results, in order. The root of the arguments is a tuple whose children have the names of the model's parameters. */
typedef enum {
  SMELT_NODE_LEAF = 0,
  SMELT_NODE_TUPLE = 1,
  SMELT_NODE_LIST = 2,
  SMELT_NODE_DICT = 3,
  SMELT_NODE_NAMED_TUPLE = 4, /* `type` names the class; the names of its fields are not known */
  SMELT_NODE_OBJECT = 5,      /* of the class `type` */
  SMELT_NODE_NONE = 6         /* a field that held None: no leaf */
} smelt_node_kind;
typedef enum { SMELT_KEY_INDEX = 0, SMELT_KEY_NAME = 1, SMELT_KEY_NUMBER = 2 } smelt_key_kind;
typedef struct {
  smelt_node_kind kind;
  smelt_key_kind key_kind; /* how it is reached from the node above: by position, by a string, by an integer key */
  const char* key;         /* of a NAME or NUMBER; else "" */
  const char* type;        /* of a NAMED_TUPLE or OBJECT; else "" */
  size_t num_children;
  int by_name; /* an argument that the exported example gave by name */
} smelt_node;
/* *num_nodes is 0 if the bundle does not say: then the values stand in a flat tuple. */
SMELT_API const smelt_node* smelt_program_arg_structure(const smelt_program* program, size_t* num_nodes);
SMELT_API const smelt_node* smelt_program_result_structure(const smelt_program* program, size_t* num_nodes);

/* --- instances --- */

typedef struct {
  int threads;   /* 0: the program's */
  uint64_t seed; /* of random draws */
} smelt_instance_options;

/* `options` may be null. SMELT_RESOURCE_EXHAUSTED where memory is short. */
SMELT_API smelt_status smelt_instance_create(const smelt_program* program, const smelt_instance_options* options,
                                             smelt_instance** instance);
SMELT_API void smelt_instance_release(smelt_instance* instance);
/* The part of an instance for one method, to be released. All parts have the same states and random generator, so that
 * one method finds what another has written; one thread at a time uses all of them. The instance itself runs nothing
 * if it has several methods. SMELT_NOT_FOUND: smelt_last_error() lists the methods. */
SMELT_API smelt_status smelt_instance_find_method(smelt_instance* instance, const char* name, smelt_instance** method);

/* Runs the model. Items of lists among the arguments, and of lists in them, stand for the arguments that they are.
 * *num_outputs: in, the room in `outputs`; out, how many there are. The caller releases each output. On an error no
 * output is written, and no argument, unless smelt_last_error() names those that may have been written.
 * SMELT_INVALID_ARGUMENT: the arguments do not fit the signature, or the model writes one that is read-only.
 * SMELT_FAILED_PRECONDITION: PyTorch would refuse, too, or the bundle has no plan for this way of sharing memory. */
SMELT_API smelt_status smelt_instance_run(smelt_instance* instance, const smelt_value* args, size_t num_args,
                                          smelt_value* outputs, size_t* num_outputs);
/* The same, where outputs[i] of kind TENSOR is memory for that result (SMELT_KIND_NONE: none given); it stays the
 * caller's handle. */
SMELT_API smelt_status smelt_instance_run_into(smelt_instance* instance, const smelt_value* args, size_t num_args,
                                               smelt_value* outputs, size_t num_outputs);

/* A call on a device that may still run. */
typedef struct smelt_started smelt_started;
/* As smelt_instance_run, but does not wait for a device: the call follows what `stream` has been given, and what it is
 * given later follows the call. The outputs' contents are there then, or after smelt_started_wait. An error that shows
 * before the device has the work is returned here, and *call is not set. Memory of arguments that is not smelt's stays
 * until the call is done. On the CPU the call is done when this returns. */
SMELT_API smelt_status smelt_instance_start(smelt_instance* instance, const smelt_value* args, size_t num_args,
                                            uint64_t stream, smelt_value* outputs, size_t* num_outputs,
                                            smelt_started** call);
/* Waits, and returns the call's error: data may have refused it, or the device has failed. Then the outputs mean
 * nothing. It returns the same when it is called again. */
SMELT_API smelt_status smelt_started_wait(smelt_started* call);
SMELT_API int smelt_started_is_done(const smelt_started* call); /* smelt_started_wait returns at once */
SMELT_API void smelt_started_release(smelt_started* call);      /* does not end the call */

/* A result, and where it lies. -1 stands for none; arguments count as in the signature, without lists. */
typedef struct {
  smelt_value value;        /* to be released */
  smelt_array array;        /* of a tensor: as smelt_tensor_describe; its pointers live until the value is released */
  int32_t same_as_argument; /* the argument that it is */
  int32_t in_argument;      /* the first argument with which it shares a storage */
  int32_t same_as_result;   /* the earlier result that it is */
  int32_t in_result;        /* the first earlier result with which it shares a storage */
  int32_t may_move;         /* it lies in a state that a call may resize: see smelt_state_info */
  int32_t reserved;
} smelt_result;

/* One call of a model with everything in one place: it costs bindings least. */
typedef struct {
  size_t struct_size; /* sizeof(smelt_call) */
  smelt_instance* instance;
  const smelt_value* args;
  size_t num_args;
  smelt_result* results; /* filled in */
  size_t num_results;    /* as many as the model has */
} smelt_call;
/* As smelt_instance_run. */
SMELT_API smelt_status smelt_instance_call(const smelt_call* call);

/* Nests `count` results as the model returns them: the outcome is one value, lists for tuples, dictionaries (in the
 * order of their keys) and objects; a lone result is that value. On success it owns the results, which become
 * SMELT_KIND_NONE. */
SMELT_API smelt_status smelt_program_nest_results(const smelt_program* program, smelt_value* results, size_t count,
                                                  smelt_value* nested);

/* --- state --- */

/* The parameter or buffer of that name: the very tensor, to be released. One that no call writes is read-only: other
 * instances may share it. SMELT_NOT_FOUND: the model has none of that name. */
SMELT_API smelt_status smelt_instance_state(smelt_instance* instance, const char* name, smelt_tensor** tensor);
/* Copies the elements of `value`, of the state's present dtype and sizes, into the state.
 * SMELT_FAILED_PRECONDITION: a state that no call writes. */
SMELT_API smelt_status smelt_instance_set_state(smelt_instance* instance, const char* name, const smelt_tensor* value);
/* States as the bundle has them. On an error they are as they were. */
SMELT_API smelt_status smelt_instance_reset(smelt_instance* instance);
/* Writes the states that calls may write to a safetensors file, and reads them from one. Loading checks all of the file
 * before it changes a state: it must have those states, with their present dtype and sizes, and no others. The random
 * generator is not part of it. */
SMELT_API smelt_status smelt_instance_save_states(smelt_instance* instance, const char* path);
SMELT_API smelt_status smelt_instance_load_states(smelt_instance* instance, const char* path);
/* Random draws from here on are a function of the seed and of the calls. */
SMELT_API void smelt_instance_seed(smelt_instance* instance, uint64_t seed);

typedef struct {
  const char* variant; /* "distinct", "duplicate", "overlap", "eager-order" */
  int64_t kernel_launches, library_calls, bytes_copied_back, arena_bytes;
} smelt_call_stats;
SMELT_API void smelt_instance_last_call(const smelt_instance* instance, smelt_call_stats* stats);

/* Of a call on a device: the steps that the CPU has computed, on copies of their operands; the bytes copied for them and
 * for values that the call depends on; and how often the CPU has waited for the device. */
typedef struct {
  size_t struct_size; /* sizeof(smelt_device_stats) */
  int64_t host_steps, bytes_to_host, bytes_to_device, device_waits;
  int64_t kernel_launches;   /* of the model's kernels */
  int64_t graph_launches;    /* of the work of several launches at once: one for all between two reads of the CPU */
  int64_t driver_calls;      /* of functions of the driver that can fail */
  int64_t cublaslt_products; /* products of matrices that cuBLASLt has computed */
} smelt_device_stats;
SMELT_API smelt_status smelt_instance_last_device_call(const smelt_instance* instance, smelt_device_stats* stats);

/* --- operators of one's own (docs/custom_operators.md) ---
 *
 * A model that was compiled with --op-schema calls operators that its author implements:
 *
 *   static smelt_status scale(smelt_operator_call* call) {         // mylib::scale_(Tensor(a!) x, float by) -> ()
 *     const smelt_array* x = call->args[0].value.array;
 *     float* data = (float*)x->data + x->offset;
 *     ... writes the elements by x->sizes and x->strides ...
 *     return SMELT_OK;
 *   }
 *   smelt_operator_register("mylib::scale_", scale, NULL, NULL);
 *   smelt_program_load("net.smb", &program);                       // SMELT_UNIMPLEMENTED names what is missing
 *
 * Tensors among the arguments are arrays over the model's own memory; lists are lists of values; an optional argument
 * that is not given is SMELT_KIND_NONE, and so is a device. A dtype is an int, PyTorch's number of it. Arrays that the
 * schema does not let the operator write have the flag SMELT_ARRAY_READ_ONLY. Arguments are valid during the call.
 *
 * An implementation runs on the thread that runs the instance, and several threads may run it at a time. It may run
 * other instances; the instance that calls it refuses to be run by it. */

typedef struct smelt_operator_call smelt_operator_call;
/* SMELT_OK, or why the call failed: it ends with `message`, and the model's arguments and states are as before it. */
typedef smelt_status (*smelt_operator_function)(smelt_operator_call* call);

/* Functions for implementations. A library that smelt_operator_library_load opens needs no others, so it does not link
 * libsmelt. */
typedef struct smelt_operator_api {
  size_t struct_size; /* sizeof(smelt_operator_api) in the running libsmelt */
  /* smelt_operator_register. */
  smelt_status (*register_operator)(const char* name, smelt_operator_function function, void* user,
                                    void (*release)(void* user));
  /* Makes *result a new row-major tensor and returns its memory, uninitialized; null where there is none. */
  void* (*new_tensor)(smelt_value* result, smelt_dtype dtype, int rank, const int64_t* sizes);
  /* Makes *result a tensor over memory of an argument, where the schema says that the result shares it: Tensor(a). */
  smelt_status (*new_view)(smelt_value* result, const smelt_array* array);
  /* Makes *result a list of `size` values, SMELT_KIND_NONE each, to be filled in. */
  smelt_status (*new_list)(smelt_value* result, size_t size);
  /* A handle to the tensor of an argument, which keeps its memory beyond the call (lent memory lives as long as its
   * owner lets it). Null where memory is short. */
  smelt_tensor* (*keep)(const smelt_operator_call* call, const smelt_array* array);
} smelt_operator_api;

struct smelt_operator_call {
  size_t struct_size; /* sizeof(smelt_operator_call) in the running libsmelt */
  const smelt_operator_api* api;
  void* user;              /* as it was registered */
  const char* name;        /* "mylib::scale_" */
  const smelt_value* args; /* in the schema's order, all of them */
  size_t num_args;
  smelt_value* results; /* SMELT_KIND_NONE each; those that are arguments (Tensor(a!)) may stay so */
  size_t num_results;
  char* message; /* what is wrong, where the function fails: at most message_size bytes with the NUL */
  size_t message_size;
  void* internal;
};

/* Registers the implementation of "mylib::f" or "mylib::f.overload" for this process. `release`, unless null, is called
 * with `user` when nothing needs the implementation any more. On an error it is not called.
 * SMELT_FAILED_PRECONDITION: the operator has an implementation already. */
SMELT_API smelt_status smelt_operator_register(const char* name, smelt_operator_function function, void* user,
                                               void (*release)(void* user));
/* Programs that are loaded keep the implementation. SMELT_NOT_FOUND: there is none. */
SMELT_API smelt_status smelt_operator_unregister(const char* name);

/* Loads a shared library, which runs its code, and calls its function SMELT_OPERATOR_LIBRARY_ENTRY, a
 * smelt_operator_library, to register operators. A library stays loaded. Bundles name operators, never libraries.
 * SMELT_NOT_FOUND: no such file. SMELT_INVALID_ARGUMENT: no library, or one without that function. */
SMELT_API smelt_status smelt_operator_library_load(const char* path);
typedef smelt_status (*smelt_operator_library)(const smelt_operator_api* api);
#define SMELT_OPERATOR_LIBRARY_ENTRY "smelt_register_operators"

#ifdef __cplusplus
}
#endif

#endif /* SMELT_RUNTIME_SMELT_H_ */
