// Opaque handles that may go stale without harm: what a plugin holds is a table index and a
// generation, never an address.
//
// The C ABI has functions that get nothing but a handle (release, notify, read), so the tables are
// one per process: the only mutable global of the host, reached through handles(). Entries keep
// what they need of their runtime themselves. Thread: any.
#pragma once

#include "capstan/capstan.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace capstan::control {

inline constexpr std::size_t kHandlesMax = 1u << 20;  // per kind

struct CallState;
struct ObjectRef;
struct TokenState;
struct HttpState;
struct ExchangeState;
struct HashState;

// `Kind` is part of each handle, so a handle of one kind is never found in the table of another.
template <class T, unsigned Kind>
class HandleTable {
public:
    // nullptr: kHandlesMax reached.
    void* insert(std::shared_ptr<T> value) {
        const std::lock_guard lock(mutex_);
        if (free_.empty()) {
            if (slots_.size() >= kHandlesMax) {
                return nullptr;
            }
            free_.push_back(static_cast<std::uint32_t>(slots_.size()));
            slots_.emplace_back();
        }
        const std::uint32_t index = free_.back();
        free_.pop_back();
        Slot& slot = slots_[index];
        slot.value = std::move(value);
        return encode(index, slot.generation);
    }
    std::shared_ptr<T> find(const void* handle) const {
        const std::lock_guard lock(mutex_);
        const Slot* slot = slot_of(handle);
        return slot == nullptr ? nullptr : slot->value;
    }
    // Removes it: the handle is stale from now on.
    std::shared_ptr<T> take(const void* handle) {
        std::shared_ptr<T> value;
        const std::lock_guard lock(mutex_);
        if (auto* slot = const_cast<Slot*>(slot_of(handle))) {
            value = std::move(slot->value);
            slot->value = nullptr;
            slot->generation = (slot->generation + 1) & kGenerationMask;
            free_.push_back(static_cast<std::uint32_t>(slot - slots_.data()));
        }
        return value;
    }
    std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return slots_.size() - free_.size();
    }

private:
    struct Slot {
        std::shared_ptr<T> value;  // shared: a function may still use what another thread takes out
        std::uint64_t generation{1};
    };
    // 4 bits kind, 36 bits generation, 24 bits index + 1.
    static constexpr std::uint64_t kGenerationMask = (std::uint64_t{1} << 36) - 1;
    static void* encode(std::uint32_t index, std::uint64_t generation) {
        const std::uint64_t bits =
            (std::uint64_t{Kind} << 60) | (generation << 24) | (std::uint64_t{index} + 1);
        return reinterpret_cast<void*>(static_cast<std::uintptr_t>(bits));
    }
    const Slot* slot_of(const void* handle) const {
        const auto bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle));
        const std::uint64_t index = (bits & 0xFFFFFF) - 1;
        if ((bits >> 60) != Kind || index >= slots_.size()) {
            return nullptr;
        }
        const Slot& slot = slots_[index];
        return slot.value != nullptr && slot.generation == ((bits >> 24) & kGenerationMask)
                   ? &slot
                   : nullptr;
    }

    mutable std::mutex mutex_;  // guards both
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
};

struct Handles {
    HandleTable<CallState, 1> calls;
    HandleTable<ObjectRef, 2> objects;
    HandleTable<TokenState, 3> tokens;
    HandleTable<HttpState, 4> https;
    HandleTable<ExchangeState, 5> exchanges;
    HandleTable<HashState, 6> hashes;
};
Handles& handles();  // never destroyed: a stuck plugin thread may call after main has returned

}  // namespace capstan::control
