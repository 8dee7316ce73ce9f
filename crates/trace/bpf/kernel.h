/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The few members of the kernel's structures that capture.bpf.c reads. Offsets are those of the running kernel: the loader
 * relocates every access by its BTF (CO-RE), so only names and kinds matter here. Layouts compared: Linux 6.1, 6.12, 6.18
 * (include/linux/blk-mq.h, blk_types.h, blkdev.h, bio.h, mm_types.h, fs.h, fs/iomap/direct-io.c, block/blk-cgroup.h).
 */
#ifndef FOREBAY_KERNEL_H
#define FOREBAY_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;

enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_ANY = 0 };
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_RINGBUF = 27 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
};
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
struct blkcg {
	struct cgroup_subsys_state css;
};
struct blkcg_gq {
	struct blkcg *blkcg;
};

/* One byte, by __packed (include/linux/rw_hint.h); since 6.9. */
enum rw_hint {
	WRITE_LIFE_NOT_SET = 0,
	WRITE_LIFE_EXTREME = 5,
} __attribute__((packed));

struct super_block {
	__u32 s_dev;
};
struct address_space;
struct inode {
	__u16 i_mode;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	__u32 i_generation;
	enum rw_hint i_write_hint;
};
/* Before 6.9. A member of another kind counts as another member. */
struct inode___before_6_9 {
	__u8 i_write_hint;
};
struct address_space {
	struct inode *host;
};
struct file {
	struct inode *f_inode;
};
struct kiocb {
	struct file *ki_filp;
};
struct iomap_dio {
	struct kiocb *iocb;
};
struct page {
	struct address_space *mapping;
	unsigned long compound_head;
};
struct bio_vec {
	struct page *bv_page;
};
struct bvec_iter {
	__u64 bi_sector;
	__u32 bi_size;
};

struct gendisk {
	int major;
	int first_minor;
};
struct block_device {
	struct gendisk *bd_disk;
};
struct bio;
typedef void (*bio_end_io_t)(struct bio *);
struct bio {
	struct block_device *bi_bdev;
	__u32 bi_opf;
	enum rw_hint bi_write_hint;
	__u8 bi_status;
	struct bvec_iter bi_iter;
	bio_end_io_t *bi_end_io;
	void *bi_private;
	struct blkcg_gq *bi_blkg;
	struct bio_vec *bi_io_vec;
};
struct request_queue {
	struct gendisk *disk;
};
struct request {
	struct request_queue *q;
	__u32 cmd_flags;
	__u32 __data_len;
	__u64 __sector;
	struct bio *bio;
	__u64 start_time_ns;
};
struct task_struct {
	int pid;
	int tgid;
};

#pragma clang attribute pop

/* Numbers of these differ between kernels: they are relocated too. */
enum req_op {
	REQ_OP_ZONE_APPEND = 7,
};

enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
	__REQ_RAHEAD = 19,
	__REQ_BACKGROUND = 20,
	__REQ_SWAP = 24,
};

#endif
