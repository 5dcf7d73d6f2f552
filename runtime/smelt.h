/* Runs bundles: the C interface over smelt/runtime/program.h.
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
 * Handles are reference counted: the caller releases each handle that a function returns, once. Several threads may use
 * a program at a time, but only one an instance. A tensor handle stands for one tensor: if the model changes an
 * argument's geometry, smelt_tensor_sizes() of the caller's handle shows it. No function throws or aborts on bad input
 * or if memory is short (SMELT_RESOURCE_EXHAUSTED, or no tensor); a null handle gives SMELT_INVALID_ARGUMENT, and
 * releasing it does nothing.
 */
#ifndef SMELT_RUNTIME_SMELT_H_
#define SMELT_RUNTIME_SMELT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values are those of absl::StatusCode. */
typedef enum {
  SMELT_OK = 0,
  SMELT_INVALID_ARGUMENT = 3, /* does not fit the model's signature; not a bundle */
  SMELT_NOT_FOUND = 5,        /* no such file */
  SMELT_PERMISSION_DENIED = 7,
  SMELT_RESOURCE_EXHAUSTED = 8,  /* memory, files */
  SMELT_FAILED_PRECONDITION = 9, /* load: this machine lacks what the bundle needs; run: refused, as PyTorch would */
  SMELT_UNIMPLEMENTED = 12,      /* a newer format */
  SMELT_INTERNAL = 13,           /* a bug in smelt or in the compiler that made the bundle */
  SMELT_UNAVAILABLE = 14,
  SMELT_DATA_LOSS = 15 /* truncated or corrupt */
} smelt_status;

/* Returns the message of this thread's last call that did not return SMELT_OK. Valid until its next call. */
const char* smelt_last_error(void);

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
  SMELT_COMPLEX128 = 11
} smelt_dtype;

typedef enum {
  SMELT_KIND_NONE = 0,
  SMELT_KIND_TENSOR = 1,
  SMELT_KIND_INT = 2,
  SMELT_KIND_FLOAT = 3,
  SMELT_KIND_BOOL = 4
} smelt_kind;

typedef struct smelt_program smelt_program;
typedef struct smelt_instance smelt_instance;
typedef struct smelt_tensor smelt_tensor;

typedef struct {
  smelt_kind kind;
  union {
    smelt_tensor* tensor;
    int64_t integer;
    double real;
    int boolean;
  } value;
} smelt_value;

/* --- tensors --- */

/* Makes a tensor over the caller's memory, which must outlive it and all views of it (outputs may be such views, a
 * model's buffers never are). sizes, strides and offset count elements; strides may be NULL (row-major). Returns null
 * if the tensor would reach outside [data, data + bytes), or if there is no memory for the handle. */
smelt_tensor* smelt_tensor_borrow(void* data, size_t bytes, smelt_dtype dtype, int rank, const int64_t* sizes,
                                  const int64_t* strides, int64_t offset);
/* Makes a tensor with its own uninitialized memory, row-major. Returns null if there is not enough memory. */
smelt_tensor* smelt_tensor_create(smelt_dtype dtype, int rank, const int64_t* sizes);
/* Makes another tensor over the memory of `base`; the offset counts from the start of that memory. */
smelt_tensor* smelt_tensor_view(const smelt_tensor* base, int rank, const int64_t* sizes, const int64_t* strides,
                                int64_t offset);
void smelt_tensor_release(smelt_tensor* tensor);

smelt_dtype smelt_tensor_dtype(const smelt_tensor* tensor);
int smelt_tensor_rank(const smelt_tensor* tensor);
/* `rank` numbers each; valid until the tensor's geometry changes or it is released. */
const int64_t* smelt_tensor_sizes(const smelt_tensor* tensor);
const int64_t* smelt_tensor_strides(const smelt_tensor* tensor);
int64_t smelt_tensor_offset(const smelt_tensor* tensor);
void* smelt_tensor_data(const smelt_tensor* tensor);                    /* the first element */
int smelt_tensor_is_same(const smelt_tensor* a, const smelt_tensor* b); /* two handles of one tensor */
int smelt_tensor_shares_storage(const smelt_tensor* a, const smelt_tensor* b);

/* Releases the tensor in the value, if there is one, and sets its kind to SMELT_KIND_NONE. */
void smelt_value_release(smelt_value* value);

/* --- programs --- */

smelt_status smelt_program_load(const char* path, smelt_program** program);
smelt_status smelt_program_load_from_memory(const void* bytes, size_t size, smelt_program** program);
void smelt_program_release(smelt_program* program); /* instances remain valid */
size_t smelt_program_num_args(const smelt_program* program);
size_t smelt_program_num_outputs(const smelt_program* program);
const char* smelt_program_arg_name(const smelt_program* program, size_t i); /* null if there is none */
const char* smelt_program_output_name(const smelt_program* program, size_t i);

/* --- instances --- */

typedef struct {
  int threads;   /* 0: one per core */
  uint64_t seed; /* of random draws */
} smelt_instance_options;

/* `options` may be null. */
smelt_status smelt_instance_create(const smelt_program* program, const smelt_instance_options* options,
                                   smelt_instance** instance);
void smelt_instance_release(smelt_instance* instance);

/* Runs the model. *num_outputs: in, the capacity of `outputs`; out, the number of outputs. The caller releases each
 * output. On an error no output is written, and no argument, unless smelt_last_error() names those that may have been
 * written. */
smelt_status smelt_instance_run(smelt_instance* instance, const smelt_value* args, size_t num_args,
                                smelt_value* outputs, size_t* num_outputs);
/* The same, where outputs[i] of kind TENSOR provides the memory of that result (SMELT_KIND_NONE: none provided); the
 * handle remains the caller's. */
smelt_status smelt_instance_run_into(smelt_instance* instance, const smelt_value* args, size_t num_args,
                                     smelt_value* outputs, size_t num_outputs);
/* Returns the parameter or buffer of that name itself, not a copy. The caller releases it. */
smelt_status smelt_instance_state(smelt_instance* instance, const char* name, smelt_tensor** tensor);
/* Resets parameters and buffers to their values in the bundle. */
smelt_status smelt_instance_reset(smelt_instance* instance);
void smelt_instance_seed(smelt_instance* instance, uint64_t seed);

typedef struct {
  const char* variant; /* "distinct", "duplicate", "overlap", "eager-order" */
  int64_t kernel_launches, library_calls, bytes_copied_back, arena_bytes;
} smelt_call_stats;
void smelt_instance_last_call(const smelt_instance* instance, smelt_call_stats* stats);

#ifdef __cplusplus
}
#endif

#endif /* SMELT_RUNTIME_SMELT_H_ */
