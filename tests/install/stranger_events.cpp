// A program in C++ reads what a struct declared once says of itself.
#include <engine-core/event.h>

#include <cstring>

#define SHOT(FIELD, ARRAY)                                                                         \
    FIELD(uint32_t, shooter)                                                                       \
    FIELD(bool, hit)                                                                               \
    FIELD(double, x)                                                                               \
    ARRAY(char, weapon, 16)
EC_EVENT_STRUCT(shot, "game.shot", SHOT);

int main()
{
    const ec_event_type_desc *desc = shot_desc();

    return desc->field_count == 4 && desc->bytes == sizeof(shot) &&
                   desc->fields[2].offset == offsetof(shot, x) &&
                   desc->fields[3].type == EC_FIELD_CHAR &&
                   std::strcmp(desc->fields[3].name, "weapon") == 0 &&
                   shot_type() == ec_event_type("game.shot")
               ? 0
               : 1;
}
