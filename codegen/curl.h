// libcurl, opened when a remote cache is first asked for, so that the compiler starts on a machine that has none.
#ifndef SMELT_CODEGEN_CURL_H_
#define SMELT_CODEGEN_CURL_H_

#include <curl/curl.h>

namespace smelt {

// The functions of libcurl that are called here.
struct Curl {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// Null if libcurl.so.4 is not installed or cannot be initialized. The result is kept.
const Curl* OpenCurl();

}  // namespace smelt

#endif  // SMELT_CODEGEN_CURL_H_
