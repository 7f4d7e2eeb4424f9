/* engine-core/memory.hpp - the allocators of engine-core from C++17.
 *
 *     auto from = ec_heap_allocator(heap, EC_TAG_AI);
 *     std::vector<target, ec::allocator<target>> targets(from);     // any standard container
 *     ec::memory_resource resource(from);                           // or through std::pmr
 *     std::pmr::unordered_map<int, target> by_id(&resource);
 *
 *     target *one = ec::make<target>(from, 1.0f, 2.0f);             // nullptr: no memory
 *     ec::destroy(from, one);
 *     ec::unique<target> owned = ec::make_unique<target>(from);     // gives itself back
 *     draw *list = ec::frame_make_array<draw>(frame, count);        // lives for the frame; no destructors
 *     ec::arena_scope scope(arena);                                 // rewinds when it is left
 *
 *     const ec_object_type types[] = { ec::object_type<door>("door") };
 *
 * No exceptions are needed: it compiles with -fno-exceptions and -fno-rtti (std::pmr, too). Where a
 * standard container has no way to say that there is no memory, std::bad_alloc is thrown, or without exceptions
 * the program aborts. All else returns nullptr.
 *
 * Ownership, threads and cost are those of the allocator behind it; ec::allocator is one struct
 * ec_allocator, and a call through a pointer more. */
#ifndef ENGINE_CORE_MEMORY_HPP
#define ENGINE_CORE_MEMORY_HPP

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

/* A function that has the name of its struct, as stat() has, is none of a program's warnings. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include <engine-core/allocator.h>
#include <engine-core/arena.h>
#include <engine-core/frame_arena.h>
#include <engine-core/object_pool.h>
#include <engine-core/stack.h>
#pragma GCC diagnostic pop

namespace ec
{

[[noreturn]] inline void out_of_memory()
{
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    std::abort();
#endif
}

inline bool operator_equal(const ec_allocator &a, const ec_allocator &b) noexcept
{
    return a.methods == b.methods && a.context == b.context && a.tag == b.tag;
}

/* For standard containers. It goes along when a container is moved or swapped, and not when it is copied. */
template <class T> class allocator
{
  public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    allocator(const ec_allocator &from) noexcept : from_(from)
    {
    }
    template <class U> allocator(const allocator<U> &other) noexcept : from_(other.from())
    {
    }

    [[nodiscard]] T *allocate(std::size_t count)
    {
        void *block = nullptr;

        if (count <= std::numeric_limits<std::size_t>::max() / sizeof(T))
            block = ec_allocator_alloc(&from_, bytes_of(count), align());
        if (block == nullptr)
            out_of_memory();
        return static_cast<T *>(block);
    }
    void deallocate(T *block, std::size_t count) noexcept
    {
        ec_allocator_free(&from_, block, bytes_of(count));
    }
    const ec_allocator &from() const noexcept
    {
        return from_;
    }

  private:
    static constexpr std::size_t align() noexcept
    {
        return alignof(T) > 16 ? alignof(T) : 16;
    }
    static constexpr std::size_t bytes_of(std::size_t count) noexcept
    {
        return count != 0 ? count * sizeof(T) : 1;
    }

    ec_allocator from_;
};

template <class T, class U> bool operator==(const allocator<T> &a, const allocator<U> &b) noexcept
{
    return operator_equal(a.from(), b.from());
}
template <class T, class U> bool operator!=(const allocator<T> &a, const allocator<U> &b) noexcept
{
    return !operator_equal(a.from(), b.from());
}

#if __has_include(<memory_resource>)
/* For the containers of std::pmr. It outlives them. */
class memory_resource final : public std::pmr::memory_resource
{
  public:
    explicit memory_resource(const ec_allocator &from) noexcept : from_(from)
    {
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override
    {
        void *block = ec_allocator_alloc(&from_, bytes != 0 ? bytes : 1, align);

        if (block == nullptr)
            out_of_memory();
        return block;
    }
    void do_deallocate(void *block, std::size_t bytes, std::size_t) override
    {
        ec_allocator_free(&from_, block, bytes != 0 ? bytes : 1);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        return this == &other;
    }

    ec_allocator from_;
};
#endif

/* One object. nullptr: no memory; what a constructor throws comes through, and nothing leaks. */
template <class T, class... Arguments>
[[nodiscard]] T *make(const ec_allocator &from, Arguments &&...arguments)
{
    struct undo {
        const ec_allocator *from;
        void *block;
        ~undo()
        {
            ec_allocator_free(from, block, sizeof(T));
        }
    } guard { &from, ec_allocator_alloc(&from, sizeof(T), alignof(T)) };
    T *object = nullptr;

    if (guard.block != nullptr)
        object = ::new (guard.block) T(std::forward<Arguments>(arguments)...);
    guard.block = nullptr;
    return object;
}

/* The object was made by make with the same T and an equal allocator; nullptr is accepted. */
template <class T> void destroy(const ec_allocator &from, T *object) noexcept
{
    if (object == nullptr)
        return;
    object->~T();
    ec_allocator_free(&from, object, sizeof(T));
}

template <class T> struct deleter {
    ec_allocator from;
    void operator()(T *object) const noexcept
    {
        destroy(from, object);
    }
};

template <class T> using unique = std::unique_ptr<T, deleter<T>>;

/* Empty: no memory. */
template <class T, class... Arguments>
[[nodiscard]] unique<T> make_unique(const ec_allocator &from, Arguments &&...arguments)
{
    return unique<T>(make<T>(from, std::forward<Arguments>(arguments)...), deleter<T> { from });
}

/* In an arena or a frame arena, for what needs no destructor: nobody would call it. nullptr: full. */
template <class T, class... Arguments>
[[nodiscard]] T *arena_make(ec_arena *arena, Arguments &&...arguments)
{
    static_assert(std::is_trivially_destructible_v<T>, "an arena calls no destructors");
    void *block = ec_arena_alloc(arena, sizeof(T), alignof(T));

    return block != nullptr ? ::new (block) T(std::forward<Arguments>(arguments)...) : nullptr;
}

template <class T> [[nodiscard]] T *arena_make_array(ec_arena *arena, std::size_t count)
{
    static_assert(std::is_trivially_destructible_v<T>, "an arena calls no destructors");
    T *items = static_cast<T *>(ec_arena_alloc_array(arena, count, sizeof(T), alignof(T)));

    if (items != nullptr)
        std::uninitialized_value_construct_n(items, count);
    return items;
}

template <class T, class... Arguments>
[[nodiscard]] T *frame_make(ec_frame_arena *frame, Arguments &&...arguments)
{
    return arena_make<T>(ec_frame_arena_base(frame), std::forward<Arguments>(arguments)...);
}

template <class T> [[nodiscard]] T *frame_make_array(ec_frame_arena *frame, std::size_t count)
{
    return arena_make_array<T>(ec_frame_arena_base(frame), count);
}

/* Gives back what was allocated in a block of the program when that is left. */
class arena_scope
{
  public:
    explicit arena_scope(ec_arena *arena) noexcept : arena_(arena)
    {
        if (ec_arena_mark(arena, &marker_) < 0)
            marker_.serial = 0;
    }
    explicit arena_scope(ec_frame_arena *frame) noexcept : arena_scope(ec_frame_arena_base(frame))
    {
    }
    ~arena_scope()
    {
        if (is_open())
            ec_arena_rewind(arena_, &marker_);
    }
    arena_scope(const arena_scope &) = delete;
    arena_scope &operator=(const arena_scope &) = delete;

    /* false: 64 markers were open; what is allocated stays until the arena's reset. */
    bool is_open() const noexcept
    {
        return marker_.serial != 0;
    }

  private:
    ec_arena *arena_;
    ec_arena_marker marker_;
};

class stack_scope
{
  public:
    explicit stack_scope(ec_stack *stack) noexcept : stack_(stack), marker_(ec_stack_mark(stack))
    {
    }
    ~stack_scope()
    {
        ec_stack_rewind(stack_, &marker_);
    }
    stack_scope(const stack_scope &) = delete;
    stack_scope &operator=(const stack_scope &) = delete;

  private:
    ec_stack *stack_;
    ec_stack_marker marker_;
};

/* A row of the type table of an object pool. ec_object_create's arguments are a pointer to Arguments, which the
 * constructor takes; void: the default constructor. ec_object_create is C, so no exception leaves it: it answers
 * EC_ERR_MEMORY for a std::bad_alloc of the constructor and EC_ERR_STATE for all else, and there is no object. */
template <class T, class Arguments = void> ec_object_type object_type(const char *name) noexcept
{
    ec_object_type type {};

    type.name = name;
    type.bytes = sizeof(T);
    type.align = alignof(T) > 16 ? alignof(T) : 16;
    type.construct = [](void *object, const void *arguments, void *) -> int {
#if defined(__cpp_exceptions)
        try {
#endif
            if constexpr (std::is_void_v<Arguments>) {
                (void)arguments;
                ::new (object) T();
            } else {
                ::new (object) T(*static_cast<const Arguments *>(arguments));
            }
#if defined(__cpp_exceptions)
        } catch (const std::bad_alloc &) {
            return EC_ERR_MEMORY;
        } catch (...) {
            return EC_ERR_STATE;
        }
#endif
        return EC_OK;
    };
    type.destruct = [](void *object, void *) { static_cast<T *>(object)->~T(); };
    return type;
}

template <class T> T *object_get(const ec_object_pool *pool, ec_object_handle handle) noexcept
{
    return static_cast<T *>(ec_object_get(pool, handle));
}

} /* namespace ec */

#endif
