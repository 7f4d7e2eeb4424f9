// Standard containers, std::pmr and single objects on the allocators, with and without exceptions.
#include <engine-core/memory.hpp>

#include <cstdio>
#include <cstring>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <engine-core/heap.h>
#include <engine-core/pool.h>
#include <engine-core/slab.h>

static int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::printf("line %d: %s\n", __LINE__, #condition);                                    \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static int alive;

struct door {
    explicit door(int n = 7) : number(n)
    {
        alive++;
    }
    door(const door &other) : number(other.number)
    {
        alive++;
    }
    ~door()
    {
        alive--;
    }
    int number;
};

struct alignas(64) wide {
    float values[16];
};

template <class Stats, class T> static std::uint64_t live(Stats stats, const T *allocator)
{
    ec_memory_stats numbers;

    stats(allocator, &numbers);
    return numbers.count;
}

static void containers(ec_heap *heap)
{
    const ec_allocator from = ec_heap_allocator(heap, EC_TAG_AI);
    {
        std::vector<int, ec::allocator<int>> numbers(from);
        std::list<door, ec::allocator<door>> doors(from);
        std::map<int, int, std::less<int>, ec::allocator<std::pair<const int, int>>> squares(from);
        std::basic_string<char, std::char_traits<char>, ec::allocator<char>> text(from);
        std::vector<wide, ec::allocator<wide>> wides(from);

        for (int i = 0; i < 10000; i++) {
            numbers.push_back(i);
            squares[i % 100] = i;
            if (i % 100 == 0)
                doors.emplace_back(i);
            text += 'x';
        }
        wides.resize(3);
        CHECK(numbers[9999] == 9999 && squares[42] == 9942 && doors.size() == 100);
        CHECK(text.size() == 10000 && reinterpret_cast<std::uintptr_t>(&wides[1]) % 64 == 0);
        auto copy = numbers;
        auto moved = std::move(numbers);
        CHECK(copy == moved && copy.get_allocator() == moved.get_allocator());
        CHECK(alive == 100);
        CHECK(live(ec_heap_stats, heap) > 200);
    }
    CHECK(alive == 0 && live(ec_heap_stats, heap) == 0);
}

static void resources(ec_heap *heap)
{
#if __has_include(<memory_resource>)
    ec::memory_resource resource(ec_heap_allocator(heap, EC_TAG_UI));
    {
        std::pmr::unordered_map<int, std::pmr::string> names(&resource);

        for (int i = 0; i < 1000; i++)
            names[i] = "a name that is too long to lie in the string itself";
        CHECK(names.size() == 1000 && names[999].size() > 40);
        CHECK(live(ec_heap_stats, heap) > 2000);
    }
    CHECK(live(ec_heap_stats, heap) == 0);
#else
    (void)heap;
#endif
}

static void objects(ec_pool *pool, ec_slab *slab)
{
    const ec_allocator from = ec_pool_allocator(pool);
    door *one = ec::make<door>(from, 12);

    CHECK(one != nullptr && one->number == 12 && alive == 1);
    ec::destroy(from, one);
    ec::destroy<door>(from, nullptr);
    CHECK(alive == 0 && live(ec_pool_stats, pool) == 0);
    {
        ec::unique<door> owned = ec::make_unique<door>(ec_slab_allocator(slab), 3);
        ec::unique<door> other = std::move(owned);

        CHECK(other && !owned && other->number == 3 && alive == 1);
    }
    CHECK(alive == 0 && live(ec_slab_stats, slab) == 0);
    CHECK(ec::make<wide>(from) == nullptr); // larger than a block of the pool
}

static void frames(ec_frame_arena *frame, ec_stack *stack)
{
    int *numbers = ec::frame_make_array<int>(frame, 100);
    wide *aligned = ec::frame_make<wide>(frame);
    ec_memory_stats before, after;

    CHECK(numbers != nullptr && numbers[99] == 0);
    CHECK(aligned != nullptr && reinterpret_cast<std::uintptr_t>(aligned) % 64 == 0);
    ec_frame_arena_stats(frame, &before);
    {
        ec::arena_scope scope(frame);

        CHECK(scope.is_open() && ec::frame_make<wide>(frame) != nullptr);
    }
    ec_frame_arena_stats(frame, &after);
    CHECK(before.current_bytes == after.current_bytes);
    {
        ec::stack_scope scope(stack);

        CHECK(ec_stack_alloc(stack, 100, 16) != nullptr);
    }
    CHECK(live(ec_stack_stats, stack) == 0);
}

static void handles()
{
    const ec_object_type types[] = { ec::object_type<door, int>("door"),
                                     ec::object_type<wide>("wide") };
    ec_object_pool_desc desc {};
    ec_object_pool *pool;
    ec_object_handle handle;
    const int number = 5;

    desc.name = "things";
    desc.types = types;
    desc.type_count = 2;
    CHECK(ec_object_pool_create(&desc, &pool, nullptr) == EC_OK);
    CHECK(ec_object_create(pool, 0, &number, &handle) == EC_OK);
    CHECK(ec::object_get<door>(pool, handle)->number == 5 && alive == 1);
    CHECK(ec_object_destroy_later(pool, handle) == EC_OK && ec_object_pool_flush(pool) == 1);
    CHECK(ec::object_get<door>(pool, handle) == nullptr && alive == 0);
    CHECK(ec_object_create(pool, 1, nullptr, &handle) == EC_OK);
    CHECK(reinterpret_cast<std::uintptr_t>(ec_object_get(pool, handle)) % 64 == 0);
    ec_object_pool_destroy(pool);
}

#if defined(__cpp_exceptions)
struct thrower {
    thrower()
    {
        throw 1;
    }
};

static void exceptions(ec_heap *heap, ec_stack *stack)
{
    const ec_allocator from = ec_heap_allocator(heap, EC_TAG_AI);
    std::vector<char, ec::allocator<char>> bytes(ec_stack_allocator(stack));
    bool thrown = false;

    try {
        bytes.resize(1 << 20); // more than the stack has
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown && bytes.empty());
    thrown = false;
    try {
        ec::destroy(from, ec::make<thrower>(from));
    } catch (int) {
        thrown = true;
    }
    CHECK(thrown && live(ec_heap_stats, heap) == 0);
}

struct hungry {
    hungry()
    {
        throw std::bad_alloc();
    }
};

static void throwing_constructors()
{
    const ec_object_type types[] = { ec::object_type<thrower>("thrower"),
                                     ec::object_type<hungry>("hungry") };
    ec_object_pool_desc desc {};
    ec_object_pool *pool;
    ec_object_handle handle;

    desc.name = "things";
    desc.types = types;
    desc.type_count = 2;
    CHECK(ec_object_pool_create(&desc, &pool, nullptr) == EC_OK);
    CHECK(ec_object_create(pool, 0, nullptr, &handle) == EC_ERR_STATE && handle.generation == 0);
    CHECK(ec_object_create(pool, 1, nullptr, &handle) == EC_ERR_MEMORY && handle.generation == 0);
    CHECK(live(ec_object_pool_stats, pool) == 0);
    ec_object_pool_destroy(pool);
}
#endif

int main()
{
    ec_heap_desc heap_desc {};
    ec_slab_desc slab_desc {};
    ec_pool_desc pool_desc {};
    ec_stack_desc stack_desc {};
    ec_frame_arena_desc frame_desc {};
    ec_heap *heap;
    ec_slab *slab;
    ec_pool *pool;
    ec_stack *stack;
    ec_frame_arena *frame;

    heap_desc.name = slab_desc.name = pool_desc.name = stack_desc.name = frame_desc.name = "cpp";
    pool_desc.block_bytes = sizeof(door);
    stack_desc.bytes = frame_desc.bytes = 1 << 16;
    if (ec_heap_create(&heap_desc, &heap, nullptr) < 0 ||
        ec_slab_create(&slab_desc, &slab, nullptr) < 0 ||
        ec_pool_create(&pool_desc, &pool, nullptr) < 0 ||
        ec_stack_create(&stack_desc, &stack, nullptr) < 0 ||
        ec_frame_arena_create(&frame_desc, &frame, nullptr) < 0)
        return 2;
    containers(heap);
    resources(heap);
    objects(pool, slab);
    frames(frame, stack);
    handles();
#if defined(__cpp_exceptions)
    exceptions(heap, stack);
    throwing_constructors();
#endif
    ec_frame_arena_destroy(frame);
    ec_stack_destroy(stack);
    ec_pool_destroy(pool);
    ec_slab_destroy(slab);
    ec_heap_destroy(heap);
    return failures != 0;
}
