/* archive_wad.h - Doom WADs, in place of PhysicsFS's own archiver, which finds one of several lumps with one
 * name.
 *
 * In a WAD a lump's name says what it is only together with the lumps before it: each map has lumps THINGS,
 * LINEDEFS and so on behind its marker, and flats and sprites lie between markers, where they may have the
 * names of textures. So a lump is found
 *
 *   NAME            the last of that name, as games of the Doom family have it
 *   MAP01/THINGS    the lump of a map: behind its marker, which is what stands before THINGS or TEXTMAP
 *   F/FLOOR0_1      the lump between F_START and F_END; likewise S, P, FF, …
 *
 * A \ in a name is written ^, as those games do in zips. */
#ifndef RESOURCES_ARCHIVE_WAD_H
#define RESOURCES_ARCHIVE_WAD_H

#include <physfs.h>

extern const PHYSFS_Archiver archive_wad;

#endif
