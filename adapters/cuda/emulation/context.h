#pragma once
#include <cstddef>
#include <cstdint>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace tally::cuda::emulation {

// A suspended point of execution, with a stack of its own.
//
// A lane of a warp gives control away at every exchange of values, so that tests spend much of
// their time here. swapcontext() calls the system for the signal mask each time; where the
// processor is known, a few instructions do instead.
#ifdef __x86_64__

struct Context {
  std::uintptr_t stack_pointer = 0;
  std::uintptr_t frame_pointer = 0;
  std::uintptr_t instruction = 0;
};

// Makes `context` the beginning of `function`, which never returns.
inline void prepare(Context& context, void* stack, std::size_t bytes, void (*function)()) {
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(stack) + bytes;
  // As behind a call: the return address lies below a multiple of 16.
  context = {.stack_pointer = end / 16 * 16 - sizeof(std::uintptr_t),
             .frame_pointer = 0,
             .instruction = reinterpret_cast<std::uintptr_t>(function)};
}

// Goes on at `to`; returns when something goes on at `from`.
[[gnu::noinline]] inline void switch_contexts(Context& from, Context& to) {
  Context* saved = &from;
  const Context* next = &to;
  // Callers keep nothing in the registers that a function may change; those are not in the list.
  asm volatile(
      "leaq 1f(%%rip), %%rax\n\t"
      "movq %%rsp, 0(%0)\n\t"
      "movq %%rbp, 8(%0)\n\t"
      "movq %%rax, 16(%0)\n\t"
      "movq 0(%1), %%rsp\n\t"
      "movq 8(%1), %%rbp\n\t"
      "jmpq *16(%1)\n"
      "1:"
      : "+D"(saved), "+S"(next)
      :
      : "rax", "rbx", "r12", "r13", "r14", "r15", "memory", "cc");
}

#else

struct Context {
  ucontext_t saved{};
};

inline void prepare(Context& context, void* stack, std::size_t bytes, void (*function)()) {
  getcontext(&context.saved);
  context.saved.uc_stack.ss_sp = stack;
  context.saved.uc_stack.ss_size = bytes;
  makecontext(&context.saved, function, 0);
}

inline void switch_contexts(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }

#endif

}  // namespace tally::cuda::emulation
