// Meets the other processes as Horovod does, through Horovod's own client of the rendezvous,
// and adds up all ranks: what hvd.init() and one allreduce do, without the rest of Horovod.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include "horovod/common/gloo/http_store.h"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    std::cerr << "the variable " << name << " is not set" << std::endl;
    std::exit(1);
  }
  return value;
}

int number(const char* name) { return std::stoi(variable(name)); }

int sum(const std::string& scope, int rank, int size, int value) {
  gloo::transport::tcp::attr where;
  where.hostname = variable("YTF_TASK_HOST");
  auto device = gloo::transport::tcp::CreateDevice(where);
  horovod::common::HTTPStore store(variable("HOROVOD_GLOO_RENDEZVOUS_ADDR"),
                                   number("HOROVOD_GLOO_RENDEZVOUS_PORT"), scope, rank);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->setTimeout(std::chrono::seconds(60));
  context->connectFullMesh(store, device);
  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
  store.Finalize();
  gloo::AllreduceOptions options(context);
  options.setInput(&value, 1);
  options.setOutput(&value, 1);
  options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(
      &gloo::sum<int>));
  gloo::allreduce(options);
  return value;
}

}  // namespace

int main() {
  const int rank = number("HOROVOD_RANK");
  const int local_rank = number("HOROVOD_LOCAL_RANK");
  const int all = sum("global", rank, number("HOROVOD_SIZE"), rank + 1);
  const int local = sum("local_" + variable("HOROVOD_HOSTNAME"), local_rank,
                        number("HOROVOD_LOCAL_SIZE"), rank + 1);
  const int cross = sum("cross_" + std::to_string(local_rank), number("HOROVOD_CROSS_RANK"),
                        number("HOROVOD_CROSS_SIZE"), rank + 1);
  std::cout << "FINAL rank=" << rank << " all=" << all << " local=" << local
            << " cross=" << cross << std::endl;
}
